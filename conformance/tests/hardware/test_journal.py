"""Journals are read while they are written."""

from conformance.hardware.journal import JournalReader


def test_a_line_is_read_when_it_is_complete(tmp_path):
    path = tmp_path / "x.jsonl"
    reader = JournalReader(path)
    assert list(reader.new_lines()) == []
    path.write_text('{"n": 1}\n{"n": ')
    assert list(reader.new_lines()) == [{"n": 1}]
    with path.open("a") as file:
        file.write("2}\n")
    assert list(reader.new_lines()) == [{"n": 2}]
