"""The jobs of a run: what a process gets, and in which order."""

from conformance.hardware import jobs

#: Five groups of one to five tests. The first test of each group is one of bits.
TESTS = [jobs.PlannedTest(f"{n} {k}", f"g{n}", k == 0) for n in range(5) for k in range(n + 1)]


def test_every_test_is_in_one_share_and_a_group_is_in_one():
    for count in (1, 2, 3, 4, 9):
        shares = jobs.share(TESTS, count)
        assert sorted(id for ids in shares for id in ids) == sorted(test.id for test in TESTS)
        assert len(shares) == min(count, 5)
        groups = [{id.partition(" ")[0] for id in ids} for ids in shares]
        assert sum(map(len, groups)) == 5
    sizes = [len(ids) for ids in jobs.share(TESTS, 3)]
    assert max(sizes) - min(sizes) <= 1


def test_bits_come_first_and_a_finished_test_does_not_run_again():
    all_jobs = list(jobs.jobs(TESTS, 3, 2, ()))
    assert [job.round for job in all_jobs] == [1, 1, 2, 2, 3, 3, 1, 1]
    assert all(id.endswith(" 0") for job in all_jobs[:6] for id in job.tests)
    keys = [(job.round, id) for job in all_jobs for id in job.tests]
    assert len(set(keys)) == len(keys)
    assert sorted(keys) == sorted(jobs.expected_keys(TESTS, 3))
    finished = set(keys[::2])
    unfinished = [(job.round, id) for job in jobs.jobs(TESTS, 3, 2, finished) for id in job.tests]
    assert sorted(unfinished) == sorted(set(keys) - finished)
    assert list(jobs.jobs(TESTS, 3, 2, keys)) == []
