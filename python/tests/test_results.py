"""Measurements of the repository as data frames."""

import json

import pytest
from conftest import REPOSITORY

import rounds


def test_committed_measurements_are_a_row_a_run():
    folders = {path.parent for path in (REPOSITORY / "results").rglob("measurements.jsonl*")}
    assert len(folders) > 10
    for folder in sorted(folders):
        table = rounds.results.load(folder)
        assert len(table) and {"algorithm", "repeat"} <= set(table.columns), folder


def test_members_of_objects_are_columns_and_cut_lines_are_none(tmp_path):
    lines = [{"record": "cell", "value": 1.5, "parameters": {"epsilon": 2}}, {"record": "skipped", "reason": "too long"}]
    text = "".join(json.dumps(line) + "\n" for line in lines) + '{"record": "ce'
    (tmp_path / "measurements.jsonl").write_text(text)
    table = rounds.results.load(tmp_path)
    assert table.to_dict("records") == [{"record": "cell", "value": 1.5, "parameters.epsilon": 2}]
    assert rounds.results.load(tmp_path, record="skipped")["reason"].tolist() == ["too long"]
    (tmp_path / "measurements.jsonl").write_text("nonsense\n")
    with pytest.raises(ValueError, match="line 1"):
        rounds.results.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        rounds.results.load(tmp_path / "none")
