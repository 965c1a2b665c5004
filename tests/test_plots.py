"""Plots of a model: what is drawn, in a terminal of any width and in files whose bytes do not change."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from prfaas_opt.cli import app
from prfaas_opt.io.catalog import entries
from prfaas_opt.listings import plot_model
from prfaas_opt.plots.curves import Line, Panel, length_ticks, value_ticks

LENGTHS = (1024, 8192, 32768, 131072)
MIB = (190.8, 308.9, 701.3, 2316.3)
LATENCY_S = (0.44, 0.72, 1.84, 7.40)
MODEL = """
name: mine
kv_cache: {lengths_tokens: [1K, 64K], mib: [100, 600], extrapolate_to_tokens: 256K}
kv_cache_provenance: measured, by us
profiles:
  - hardware: A
    gpus_per_instance: 8
    prefill: {lengths_tokens: [1K, 32K], latency_s: [0.1, 2.0], extrapolate_to_tokens: 64K}
    provenance: {prefill: "measured, by us"}
  - hardware: B
    gpus_per_instance: 1
    prefill: {quadratic: {a_s: 0.2, b_s_per_token: 1.0e-4, c_s_per_token2: 1.0e-9}, range_tokens: [2K, 128K]}
    kv_cache: {lengths_tokens: [2K, 128K], mib: [10, 2000]}
    provenance: {prefill: "assumed, as if", kv_cache: "measured, by us"}
"""


def show(*arguments: str, **environment: str) -> Result:
    settings = {"COLUMNS": "80", "NO_COLOR": "1"} | environment
    return CliRunner().invoke(app, ["models", "show", *arguments], env=settings)


@pytest.fixture
def mine(tmp_path: Path) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(MODEL, encoding="utf-8")
    return str(path)


def panels(model: str) -> dict[str, Panel]:
    return {panel.quantity: panel for panel in plot_model(model).panels}


def line(model: str, quantity: str, name: str) -> Line:
    (found,) = [each for each in panels(model)[quantity].lines if each.name == name]
    return found


# What is drawn


def test_the_points_of_a_table_are_on_its_lines() -> None:
    latency = line("internal-1t", "Prefill latency", "8 x H200")
    assert [length for length, _ in latency.data] == list(LENGTHS)
    assert [value for _, value in latency.data] == pytest.approx(LATENCY_S)
    assert set(latency.data) <= set(latency.points)
    size = line("internal-1t", "KVCache size", "all hardware")
    assert [value for _, value in size.data] == pytest.approx(MIB)
    rate = line("internal-1t", "KV throughput", "8 x H200")
    expected = [mib * 2**20 * 8 / 1e9 / s for mib, s in zip(MIB, LATENCY_S, strict=True)]
    assert [value for _, value in rate.data] == pytest.approx(expected)
    for length, value in rate.points:
        of = [dict(each.points)[length] for each in (size, latency)]
        assert value == pytest.approx(of[0] * 2**20 * 8 / 1e9 / of[1])


def test_a_formula_and_layers_have_no_points() -> None:
    assert line("internal-1t", "Prefill latency", "8 x H20").data == ()
    assert line("kimi-linear", "KVCache size", "all hardware").data == ()
    assert line("kimi-linear", "KV throughput", "8 x H200").data != ()


def test_all_that_is_known_and_half_of_the_shortest_length_is_spanned() -> None:
    plot = plot_model("internal-1t")
    assert (plot.low_tokens, plot.high_tokens) == (64, 131072)
    for panel in plot.panels:
        for each in panel.lines:
            assert (each.points[0][0], each.points[-1][0]) == (64, 131072)


def spans(each: Line) -> list[tuple[float, float, bool]]:
    return [(s.points[0][0], s.points[-1][0], s.assumed) for s in each.stretches]


def test_what_is_outside_the_data_is_assumed(mine: str) -> None:
    expected = [(512, 1024, True), (1024, 32768, False), (32768, 65536, True)]
    assert spans(line(mine, "Prefill latency", "8 x A")) == expected
    assert spans(line(mine, "KVCache size", "8 x A")) == [
        (512, 1024, True),
        (1024, 65536, False),
        (65536, 131072, True),
    ]
    assert spans(line(mine, "KV throughput", "8 x A")) == expected
    assert spans(line("internal-1t", "KV throughput", "8 x H20")) == [(64, 1024, True), (1024, 131072, False)]


def test_what_a_profile_calls_assumed_is_drawn_so(mine: str) -> None:
    assert spans(line(mine, "Prefill latency", "1 x B")) == [(512, 131072, True)]
    assert {assumed for *_, assumed in spans(line(mine, "KV throughput", "1 x B"))} == {True}
    assert line(mine, "KV throughput", "1 x B").data == ()
    assert not plot_model("kimi-linear").panels[1].lines[0].stretches[0].assumed


def test_a_size_that_falls_to_nothing_below_its_data_takes_no_axis(mine: str) -> None:
    # 10 MiB at 2K and 2000 at 128K: the line would be below zero at 1.7K.
    below = line(mine, "KVCache size", "1 x B").stretches[0]
    assert below.assumed
    assert min(value for _, value in below.points) >= 10 / 4
    assert panels(mine)["KVCache size"].limits[0] >= 10 / 4


@pytest.mark.parametrize("name", entries("models"))
def test_every_shipped_model_can_be_drawn(name: str) -> None:
    plot = plot_model(name)
    assert [panel.unit for panel in plot.panels] == ["s", "MiB", "Gbps"]
    assert all(value > 0 for panel in plot.panels for each in panel.lines for _, value in each.points)
    assert show(name, "--plot", "terminal").exit_code == 0


def test_ticks_are_inside_and_few() -> None:
    for low, high in ((0.44, 22.6), (1.0, 1.4), (3e-3, 4e5), (99.0, 101.0)):
        ticks = value_ticks(low, high, 6)
        assert 1 <= len(ticks) <= 6
        assert all(low <= tick <= high for tick in ticks)
    for most in (2, 4, 9):
        lengths = length_ticks(64, 131072, most)
        assert len(lengths) <= most
        assert lengths[-1] == 131072


# In a terminal


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_the_text_fits_the_terminal(columns: int, mine: str) -> None:
    for name in ("internal-1t", mine):
        result = show(name, "--plot", "terminal", COLUMNS=str(columns))
        plots = result.stdout.partition("Prefill latency (s)")[2]
        assert plots
        assert max(map(len, plots.splitlines())) <= columns


def test_the_text_has_units_ticks_names_points_and_no_colour() -> None:
    text = show("internal-1t", "--plot", "terminal").stdout
    assert "\x1b" not in text
    latency, size, rate = re.split(r"\n(?=KV)", text)
    assert "internal-1t: " in latency
    assert "Points of the data: o 8 x H200, + all hardware; dotted where assumed" in latency
    for panel, title in (
        (latency, "Prefill latency (s)"),
        (size, "KVCache size (MiB)"),
        (rate, "KV throughput (Gbps)"),
    ):
        assert title in panel
        assert panel.rstrip().endswith("prompt length (tokens)")
        (axis,) = [row for row in panel.splitlines() if "128K" in row]
        assert axis.split() == ["128", "512", "2K", "8K", "32K", "128K"]
    rows = [row for row in latency.splitlines() if re.search(r"[│┤]", row)]
    assert sum(row.split("│")[-1].split("┤")[-1].split(" 8 x")[0].count("o") for row in rows) == 4
    assert [row.split("┤")[0].strip() for row in rows if "┤" in row] == ["20", "10", "5", "2", "1", "0.5"]
    assert rows[0].endswith(" 8 x H20")
    assert [row for row in rows if row.endswith("o 8 x H200")]
    assert size.count("all hardware") == 1


def test_a_line_rises_where_its_values_do() -> None:
    """The row of a dot is higher the longer the prompt, column by column, in the panel of sizes."""
    size = re.split(r"\n(?=KV)", show("internal-1t", "--plot", "terminal").stdout)[1]
    rows = [re.split("[│┤]", row)[1] for row in size.splitlines() if re.search(r"[│┤]", row)]
    tops: dict[int, int] = {}
    for height, row in enumerate(rows):
        for column, character in enumerate(row.removesuffix(" all hardware")):
            if character != " ":
                tops.setdefault(column, height)
    heights = [tops[column] for column in sorted(tops)]
    assert heights == sorted(heights, reverse=True)
    assert heights[-1] == 0
    assert heights[0] == len(rows) - 1


def test_colours_change_nothing_but_colour() -> None:
    command = [sys.executable, "-m", "prfaas_opt", "models", "show", "internal-1t", "--plot", "terminal"]
    plain, coloured = (
        subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | environment).stdout
        for environment in ({"NO_COLOR": "1", "COLUMNS": "80"}, {"FORCE_COLOR": "1", "COLUMNS": "80", "NO_COLOR": ""})
    )
    assert "Prefill latency (s)" in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_plotting_is_imported_only_to_plot() -> None:
    code = (
        "import sys\nfrom prfaas_opt.cli import main\n"
        "sys.argv = ['prfaas-opt', 'models', 'show', 'internal-1t']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'matplotlib', 'plotille', 'numpy'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr.strip().splitlines()[-1] == "[]"


# Into a file


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_same_model_gives_the_same_bytes_whoever_draws_it(suffix: str, tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("font.size: 23\nlines.linewidth: 9\nsvg.fonttype: none\n", encoding="utf-8")
    contents = set()
    for seed, more in (("1", {}), ("2", {"MATPLOTLIBRC": str(tmp_path)}), ("3", {"SOURCE_DATE_EPOCH": "1"})):
        file = tmp_path / f"{seed}.{suffix}"
        command = [sys.executable, "-m", "prfaas_opt", "models", "show", "internal-1t", "--plot", str(file)]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PYTHONHASHSEED": seed} | more)
        contents.add(file.read_bytes())
    assert len(contents) == 1
    (content,) = contents
    assert not [word for word in (b"Software", b"<dc:creator>", b"<dc:date>") if word in content]
    assert content.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")


def test_an_svg_has_axes_with_units_ticks_and_a_legend(tmp_path: Path) -> None:
    file = tmp_path / "plots.svg"
    result = show("internal-1t", "--plot", str(file))
    assert result.exit_code == 0
    assert "prefill: paper, table 5" in result.stdout
    assert result.stdout.endswith(f"Plot: {file}\n")
    texts = re.findall(r"<!-- (.+?) -->", file.read_text(encoding="utf-8"))
    for text in (
        "Prefill latency (s)",
        "KVCache size (MiB)",
        "KV throughput (Gbps)",
        "prompt length (tokens)",
        "128",
        "32K",
        "8 x H200",
        "8 x H20",
        "dotted: assumed",
        "internal-1t",
    ):
        assert text in texts
    other = tmp_path / "other.svg"
    show("kimi-linear", "--plot", str(other))
    assert other.read_bytes() != file.read_bytes()


@pytest.mark.parametrize("name", ["plots.pdf", "plots", "plots.PNGG", ".png"])
def test_another_suffix_is_an_error(name: str, tmp_path: Path) -> None:
    result = show("internal-1t", "--plot", str(tmp_path / name))
    assert result.exit_code == 4
    assert "expected .png or .svg" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_suffix_may_be_in_capitals(tmp_path: Path) -> None:
    assert show("internal-1t", "--plot", str(tmp_path / "plots.SVG")).exit_code == 0


def test_without_matplotlib_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = show("internal-1t", "--plot", str(tmp_path / "plots.png"))
    assert result.exit_code == 4
    assert 'pip install "prfaas-opt[plots]"' in result.stderr
    assert result.stdout == ""
    assert show("internal-1t", "--plot", "terminal").exit_code == 0


def test_a_file_that_is_there_is_replaced_only_if_asked(tmp_path: Path) -> None:
    file = tmp_path / "plots.png"
    file.write_text("mine", encoding="utf-8")
    result = show("internal-1t", "--plot", str(file))
    assert result.exit_code == 4
    assert "is there already" in result.stderr
    assert file.read_text(encoding="utf-8") == "mine"
    assert show("internal-1t", "--plot", str(file), "--force").exit_code == 0
    assert file.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    result = show("internal-1t", "--plot", str(tmp_path / "none" / "plots.png"))
    assert result.exit_code == 4
    assert "cannot be written" in result.stderr


def test_json_beside_a_file_and_not_beside_text(tmp_path: Path) -> None:
    file = tmp_path / "plots.svg"
    result = show("internal-1t", "--plot", str(file), "--json")
    assert result.stdout == show("internal-1t", "--json").stdout
    assert file.exists()
    assert show("internal-1t", "--plot", "terminal", "--json").exit_code == 2


def test_a_wrong_model_writes_nothing(tmp_path: Path) -> None:
    assert show("no-such-model", "--plot", str(tmp_path / "plots.svg")).exit_code == 4
    assert list(tmp_path.iterdir()) == []
