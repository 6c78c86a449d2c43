"""The demo: the whole command, and sections whose claims do not hold."""

import io
import re
from types import SimpleNamespace

import pytest

import impl
from impl import _demo
from impl.tests.support import processes


@pytest.mark.once
def test_the_command_succeeds_and_every_claim_of_every_section_holds():
    done = processes.run("-m", "impl", "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    _, *sections = re.split(r"\n(?=\d\. )", done.stdout)
    assert [section[:2] for section in sections] == ["1.", "2.", "3.", "4.", "5.", "6."]
    assert all("[ok]" in section and "[FAILED]" not in section for section in sections)
    assert "All 12 claims hold" in sections[-1]
    # The sums of PyTorch's tutorial.
    for total in ("1.100000000000168e-25", "1.1000000000002118e-25", "1.0999999999998715e-25"):
        assert total in sections[0]
    hashes = re.findall(r"SHA-256 of the weights: ([0-9a-f]{64})", sections[3])
    assert len(hashes) == 2


def printed(*sections):
    out = io.StringIO()
    return _demo.run(out, sections), out.getvalue()


def test_a_claim_that_does_not_hold_is_an_exit_status():
    def show(report):
        report.claim("two and two are four", holds=True)
        report.claim("two and two are five", holds=False)

    status, text = printed(show)
    assert status == 1
    assert "[ok] two and two are four" in text
    assert "[FAILED] two and two are five" in text
    assert text.endswith(":\n    two and two are five\n")
    assert "1 of 2 claims do not hold" in text


def test_each_claim_fails_where_its_results_are_others(monkeypatch):
    def trainings(_, modes, environments):
        places = range(len(environments))
        weights = [{mode: "same" if mode == "plain" else f"{i}" for mode in modes} for i in places]
        return [{m: {"weights": w, "loss": [5.0, 4.0]} for m, w in of.items()} for of in weights]

    monkeypatch.setattr(_demo, "left_to_right", lambda _: 0.0)
    monkeypatch.setattr(impl.testing, "lower", lambda *_: SimpleNamespace(as_text=str))
    monkeypatch.setattr(_demo, "under_schedules", lambda _, mode, __: ["a", "b" if mode else "a"])
    digests = iter("ab")
    monkeypatch.setattr(impl, "digest", lambda _: next(digests))
    monkeypatch.setattr(_demo, "trainings", trainings)
    status, text = printed(*_demo.SECTIONS)
    assert status == 1
    assert "[ok]" not in text
    assert "12 of 12 claims do not hold" in text


def test_the_error_of_a_process_is_shown():
    with pytest.raises(RuntimeError, match=r"(?s)process of its own.*nowhere"):
        _demo.trainings("tiny", ["plain"], [{"JAX_PLATFORMS": "nowhere"}])


def test_an_own_device_is_compared_with_the_cpu(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--a")
    assert list(_demo.places("cpu")) == ["1 cpu", "8 cpus"]
    *on_cpu, own = _demo.places("gpu").values()
    assert own == {}
    for count, environment in zip((1, 8), on_cpu, strict=True):
        assert environment["JAX_PLATFORMS"] == "cpu"
        assert environment["XLA_FLAGS"].startswith(
            f"--a --xla_force_host_platform_device_count={count} "
        )


def test_the_example_of_the_readme_prints_the_output_that_the_readme_shows(capsys):
    readme = processes.ROOT / "README.md"
    if not readme.exists():
        pytest.skip("only a checkout has a README")
    code, output = re.search(
        r"```python\n(.*?)```.*?```text\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL
    ).groups()
    exec(compile(code, str(readme), "exec"), {})
    assert capsys.readouterr().out.split() == output.split()
