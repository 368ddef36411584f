"""The commands that look into tables and move rows, on real tables and in real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import pilum
from pilum.cli.main import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Three versions: rows, more rows, some of them deleted."""
    uri = str(tmp_path / "orders.lance")
    rows = pa.table(
        {
            "id": range(100),
            "city": ["Rome", "Oslo"] * 50,
            "vector": pa.array([[float(i), 1.0] for i in range(100)], pa.list_(pa.float32(), 2)),
        }
    )
    dataset = pilum.write_dataset(rows, uri)
    dataset.insert(rows.slice(0, 10), commit_message="ten more")
    dataset.delete("id < 5")
    return uri


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that succeeds and return its output."""
    capsys.readouterr()
    assert main(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def as_json(*arguments: str, capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(run(*arguments, "--json", capsys=capsys))


def process(*arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "pilum", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_folder_is_listed_with_its_damaged_tables(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pilum.write_dataset(pa.table({"a": [1]}), str(tmp_path / "bad"))
    for manifest in (tmp_path / "bad" / "_versions").glob("*.manifest"):
        manifest.write_bytes(b"damaged")
    (tmp_path / "no table").mkdir()
    assert main(["ls", str(tmp_path), "--json"]) == 1
    bad, good = json.loads(capsys.readouterr().out)
    assert "bad" in bad["uri"]
    assert bad["fault"]
    assert (good["version"], good["rows"], good["deleted_rows"], good["columns"]) == (3, 100, 10, 3)
    assert [one["uri"] for one in as_json("ls", table, capsys=capsys)] == [table]
    assert main(["ls", str(tmp_path / "no table")]) == 1
    assert "no Lance table" in capsys.readouterr().err


def test_columns_files_and_sizes(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    fields = as_json("schema", table, capsys=capsys)["fields"]
    assert [(one["id"], one["path"]) for one in fields][:2] == [(0, "id"), (1, "city")]
    files = as_json("files", table, capsys=capsys)
    assert [(one["fragment"], one["kind"], one["rows"]) for one in files] == [
        (0, "data", 100),
        (0, "deletions", 5),
        (1, "data", 10),
        (1, "deletions", 5),
    ]
    sizes = as_json("du", table, capsys=capsys)
    explained = pilum.explain(pilum.dataset(table)).pages
    wanted = sum(page.stored_bytes for page in explained)
    assert sum(one["size_bytes"] for one in sizes["columns"]) == wanted
    on_disk = sum(file.stat().st_size for file in Path(table).rglob("*") if file.is_file())
    assert sum(one["size_bytes"] for one in sizes["files"]) == on_disk
    assert sizes["version_bytes"] == sum(one["size_bytes"] or 0 for one in files)
    for command in ("schema", "files", "du", "info"):
        assert "city" in run(command, table, capsys=capsys)


def test_statistics_are_those_of_the_rows(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    ids, city, _ = as_json("stats", table, capsys=capsys)
    assert (ids["rows"], ids["nulls"], ids["min"], ids["max"]) == (100, 0, 5, 99)
    assert (city["distinct"], city["min"], city["max"]) == (2, "Oslo", "Rome")


def test_pages_are_drawn_from_metadata(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = run("pages", table, capsys=capsys)
    assert drawn.startswith("orders.lance\n")
    assert "vector" in drawn
    pages = as_json("pages", table, "--column", "id", "--fragment", "1", capsys=capsys)
    assert [(page["column"], page["num_rows"]) for page in pages] == [("id", 10)]
    svg, html = tmp_path / "pages.svg", tmp_path / "pages.html"
    run("pages", table, "--svg", str(svg), "--html", str(html), capsys=capsys)
    assert svg.read_text().startswith("<svg ")
    assert "<svg " in html.read_text()
    file = next(Path(table, "data").glob("*.lance"))
    assert {page["column"] for page in as_json("pages", str(file), capsys=capsys)} == {
        "id",
        "city",
        "vector",
    }
    file.write_bytes(file.read_bytes()[:-20])
    assert main(["pages", str(file)]) == 1
    assert "CorruptFileError" in capsys.readouterr().err


def test_rows_are_shown_short(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run("show", table, "-n", "2", "-f", "id > 97", capsys=capsys).splitlines()
    assert lines[0].split() == ["id", "city", "vector"]
    assert lines[1].split() == ["98", "Rome", "[98,", "1]"]
    assert as_json("show", table, "-c", "id", "-n", "1", capsys=capsys) == [{"id": 5}]


def test_moments_that_python_has_no_object_for_are_shown_as_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = str(tmp_path / "far")
    days = pa.array([10_000_000, 0, None], pa.int32()).cast(pa.date32())
    far = pa.StructArray.from_arrays([pa.array([5 * 10**14], pa.timestamp("ms"))], ["at"])
    nested = pa.ListArray.from_arrays([0, 1, 1, 1], far)
    pilum.write_dataset(pa.table({"day": days, "events": nested}), uri)
    expected = [
        {"day": "29349-01-26", "events": [{"at": "17814-05-16 00:53:20.000"}]},
        {"day": "1970-01-01", "events": []},
        {"day": None, "events": []},
    ]
    assert as_json("show", uri, capsys=capsys) == expected
    assert "29349-01-26" in run("show", uri, capsys=capsys)
    lines = run("tail", uri, "--json", capsys=capsys).splitlines()
    assert [json.loads(line) for line in lines] == expected
    [day, _] = as_json("stats", uri, capsys=capsys)
    assert (day["min"], day["max"]) == ("1970-01-01", "29349-01-26")


@pytest.mark.parametrize("days", ["1e9", "inf", "nan"])
def test_an_age_that_is_no_number_of_days_is_refused(
    table: str, capsys: pytest.CaptureFixture[str], days: str
) -> None:
    assert main(["cleanup", table, "--dry-run", "--older-than-days", days]) == 1
    assert "InvalidInputError: --older-than-days" in capsys.readouterr().err


def test_names_and_values_do_not_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = str(tmp_path / "hostile")
    pilum.write_dataset(pa.table({"\x1b[31mred[bold]": ["\x1b]0;title\x07 [/x] \n"]}), uri)
    for command in ("show", "schema", "stats", "pages", "tail", "info", "du", "files", "versions"):
        drawn = run(command, uri, capsys=capsys)
        assert "\x1b" not in drawn
        assert "\x07" not in drawn
    assert r"\x1b[31mred[bold]" in run("show", uri, capsys=capsys)
    pilum.write_dataset(pa.table({"a": ["\x9b31mred"]}), f"{uri}2")
    for command in ("show", "tail"):
        drawn = run(command, f"{uri}2", "--json", capsys=capsys)
        assert "\x9b" not in drawn
        assert r"\u009b31mred" in drawn
    assert main(["show", "\x1b[31mred"]) == 1
    error = capsys.readouterr().err
    assert "\x1b" not in error
    assert r"\x1b[31mred" in error


def test_versions_say_what_commits_changed(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pilum.dataset(table).tags.create("good", 2)
    first, second, third = as_json("versions", table, capsys=capsys)
    assert first["difference"]["rows_added"] == 100
    assert first["difference"]["columns_added"][0] == "id: int64"
    assert (second["message"], second["tags"]) == ("ten more", ["good"])
    assert (third["operation"], third["difference"]["rows_removed"]) == ("delete", 10)
    text = run("versions", table, "-n", "2", capsys=capsys)
    assert "rows +10 -0 ~0" in text
    assert "overwrite" not in text
    svg = tmp_path / "history.svg"
    run("versions", table, "--svg", str(svg), capsys=capsys)
    assert "version 3: delete, 100 rows" in svg.read_text()


def test_two_versions_are_compared(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json("diff", table, "1", "3", capsys=capsys)
    assert (found["older"], found["newer"]) == (1, 3)
    counts = found["difference"]
    assert (counts["rows_added"], counts["rows_removed"], counts["is_exact"]) == (10, 10, False)
    assert "rows       +0 -10 ~0" in run("diff", table, "2", capsys=capsys)
    assert main(["diff", table, "3", "1"]) == 1
    assert "expected an older and a newer version" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_rows_are_written_to_a_file(
    table: str, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / f"rows.{form}"
    arguments = ["cat", table, "--format", form, "-o", str(target), "-c", "id", "-c", "city"]
    run(*arguments, capsys=capsys)
    wanted = pilum.dataset(table).to_table(["id", "city"])
    if form == "json":
        assert [json.loads(line) for line in target.read_text().splitlines()] == wanted.to_pylist()
    else:
        read = csv.read_csv(target) if form == "csv" else pq.read_table(target)
        assert read.equals(wanted)
    assert main(arguments) == 1
    assert "pass --force" in capsys.readouterr().err
    run(*arguments, "--force", capsys=capsys)


def test_a_failed_cat_leaves_no_file(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "rows.csv"
    assert main(["cat", table, "-o", str(target)]) == 1
    assert "columns ['vector'] are nested" in capsys.readouterr().err
    assert main(["cat", table, "--format", "xml", "-o", str(target)]) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["orders.lance"]


def test_bytes_are_no_csv_but_json_and_keys_of_dictionaries_are(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    uri, target = str(tmp_path / "t"), tmp_path / "rows.csv"
    documents = pa.array(['{"a":1}', None], pa.json_())
    words = pa.array(["x", None]).dictionary_encode()
    pilum.write_dataset(pa.table({"j": documents, "w": words, "b": [b"y", b"\xff"]}), uri)
    assert main(["cat", uri, "-c", "j", "-c", "w", "-o", str(target)]) == 0
    assert csv.read_csv(target)["j"][0].as_py() == '{"a":1}'
    assert main(["cat", uri, "--force", "-o", str(target)]) == 1
    assert b"InvalidInputError: csv: Invalid UTF8" in capsysbinary.readouterr().err


def test_parquet_to_a_table_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = pa.table({"a": range(10), "b": [str(i) for i in range(10)]})
    (tmp_path / "in" / "day=1").mkdir(parents=True)
    pq.write_table(rows.slice(0, 4), tmp_path / "in" / "0.parquet")
    pq.write_table(rows.slice(4), tmp_path / "in" / "day=1" / "1.parquet")
    source, table, target = (str(tmp_path / name) for name in ("in", "t.lance", "out.parquet"))
    assert "would write 10 rows" in run("convert", source, table, "--dry-run", capsys=capsys)
    assert not Path(table).exists()
    run("convert", source, table, capsys=capsys)
    assert pilum.dataset(table).to_table().equals(rows)
    assert main(["convert", source, table]) == 1
    run("convert", source, table, "--mode", "append", capsys=capsys)
    assert pilum.dataset(table).count_rows() == 20
    run("convert", table, target, capsys=capsys)
    assert pq.read_table(target).equals(pa.concat_tables([rows, rows]).combine_chunks())
    (tmp_path / "in" / "2.parquet").write_bytes(b"PAR1 not PAR1")
    assert main(["convert", source, table, "--mode", "append"]) == 1
    assert "not a Parquet file" in capsys.readouterr().err


def test_sql_reads_the_columns_that_it_names(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT CITY, count(*) AS n FROM dataset WHERE id > 9 GROUP BY 1 ORDER BY 1"
    assert as_json("sql", table, query, capsys=capsys) == [
        {"city": "Oslo", "n": 45},
        {"city": "Rome", "n": 45},
    ]
    joined = "SELECT count(*) AS n FROM dataset JOIN other USING (id)"
    found = as_json("sql", table, joined, "--table", f"other={table}", capsys=capsys)
    assert found == [{"n": 90 + 4 * 5}]  # five of the ids occur twice
    twice = "SELECT count(*) AS n FROM dataset a JOIN dataset b USING (city)"
    assert as_json("sql", table, twice, capsys=capsys) == as_json(
        "sql",
        table,
        twice.replace("dataset b", "other b"),
        "--table",
        f"other={table}",
        capsys=capsys,
    )
    for wrong in (
        "DROP TABLE dataset",
        "SELECT 1; SELECT 2",
        "SELEC",
        "SELECT nothing FROM dataset",
    ):
        assert main(["sql", table, wrong]) == 1
        assert "InvalidInputError" in capsys.readouterr().err


def test_reads_are_timed(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json("bench", table, "--runs", "2", "--rows", "7", capsys=capsys)
    assert [one["rows"] for one in found] == [100, 7, 100]
    assert all(one["best_seconds"] <= one["median_seconds"] for one in found)
    assert "7 random rows" in run("bench", table, "--runs", "2", "--rows", "7", capsys=capsys)


def test_a_query_is_explained(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "filter on id" in run("explain", table, "-f", "id = 7", capsys=capsys)
    plan = as_json("explain", table, "-f", "id = 7", "--analyze", capsys=capsys)["plan"]
    assert "rows=2" in plan[0]


@pytest.mark.parametrize(
    "command", ["info", "schema", "show", "files", "du", "stats", "versions", "bench", "pages"]
)
def test_no_table_is_an_error_of_one_line(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(tmp_path / "none")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("pilum: DatasetNotFoundError")
    assert len(error.splitlines()) == 1


def test_tail_goes_on_with_the_rows_of_new_versions(table: str) -> None:
    ran = process(
        "tail", table, "-n", "1", "-c", "id", "--json", "-f", "--interval", "0.05", "--until", "5"
    )
    assert ran.stdout is not None
    assert json.loads(ran.stdout.readline()) == {"id": 9}
    dataset = pilum.dataset(table)
    dataset.insert(
        pa.table(
            {
                "id": [7],
                "city": ["Lima"],
                "vector": pa.nulls(1, dataset.schema.field("vector").type),
            }
        )
    )
    head = json.loads(ran.stdout.readline())
    assert (head["version"], head["changes"]["rows_added"]) == (4, 1)
    assert json.loads(ran.stdout.readline()) == {"id": 7}
    dataset.delete("id = 7")
    out, error = ran.communicate()
    head, *rows = map(json.loads, out.splitlines())
    assert head["changes"]["rows_removed"] == 3
    assert rows == [{"id": 7, "_change_type": "delete"}] * 3
    assert (ran.returncode, error) == (0, b"")


def test_following_ends_with_an_interrupt(table: str) -> None:
    with process("tail", table, "-n", "1", "--follow") as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.readline()
        ran.send_signal(signal.SIGINT)
        assert ran.stderr.read() == b""
    assert ran.returncode == 128 + signal.SIGINT


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pilum {pilum.__version__}\n"


def test_a_reader_that_ends_early_is_no_error(tmp_path: Path) -> None:
    uri = str(tmp_path / "long")
    pilum.write_dataset(pa.table({"a": range(200_000)}), uri)
    for arguments in (
        ["cat", uri],
        ["cat", uri, "--format", "json"],
        ["show", uri, "-n", "20000"],  # of which a pipe holds a part
    ):
        with process(*arguments) as ran:
            assert ran.stdout is not None
            assert ran.stderr is not None
            ran.stdout.readline()
            ran.stdout.close()
            assert ran.stderr.read() == b""
        assert ran.returncode == 128 + 13


def test_without_the_extra_the_error_names_it() -> None:
    code = (
        "import sys; sys.modules['typer'] = None\n"
        "from importlib import util; found = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'typer' else found(name, *more)\n"
        "import pilum.cli.main as cli; cli.find_spec = util.find_spec; sys.exit(cli.main(['ls']))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr == "pilum: the command line needs typer: pip install 'pilum[cli]'\n"


def test_shells_complete_the_names_of_commands() -> None:
    from typer.testing import CliRunner

    from pilum.cli.app import app

    runner = CliRunner()
    assert runner.invoke(app, ["--help"]).exit_code == 0
    environment = {"_PILUM_COMPLETE": "complete_bash", "COMP_WORDS": "pilum ver", "COMP_CWORD": "1"}
    found = runner.invoke(app, [], prog_name="pilum", env=environment)
    assert sorted(found.output.split()) == ["verify", "versions"]
