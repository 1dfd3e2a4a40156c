"""The paper's numbers in the package are those of the paper's source."""

import json
import pathlib
import re

import pytest

from adt_tf.reproduction import paper_numbers

ROOT = pathlib.Path(__file__).parents[1]
SOURCE = ROOT.parent / "shared" / "paper" / "adt.tex"
COLUMNS = {
    r"$\mathcal{A}_{\mathrm{nat}}$": "A_nat",
    r"$\mathcal{A}_{\mathrm{rob}}$": "A_rob",
    r"C\&W": "C&W",
}


def clean(cell):
    """Takes the marks off a cell: bold, colours, subscripts, per cent."""
    cell = cell.strip()
    cell = COLUMNS.get(cell, cell)
    cell = re.sub(r"\\textcolor\{\w+\}", "", cell)
    cell = re.sub(r"\\textsubscript\{([^}]*)\}", r"-\1", cell)
    cell = re.sub(r"\$\^\{\\dagger\}\$", "+", cell)
    return re.sub(r"\\bf|\\%|[{}]", "", cell).strip()


def rows_of(tabular):
    """Yields the cells of each line of a tabular."""
    text = re.sub(r"(?m)^\s*%.*$", "", tabular)
    for line in text.replace("\\hline", "").split("\\\\"):
        cells = [clean(cell) for cell in re.split(r"(?<!\\)&", line)]
        if any(cells):
            yield cells


def tabulars(source, label):
    """The tabulars of the table with a label."""
    tables = re.findall(
        r"\\begin\{(?:wrap)?table\}.*?\\end\{(?:wrap)?table\}", source, re.S
    )
    (table,) = [t for t in tables if f"\\label{{{label}}}" in t]
    bodies = re.findall(r"\\begin\{tabular\}(.*?)\\end\{tabular\}", table, re.S)
    # What comes before the first rule is the columns' format.
    return [body.split("\\hline", 1)[1] for body in bodies], table


def parse(source, label):
    """{row: {column: number}}, of all that a table holds."""
    bodies, table = tabulars(source, label)
    places = [table.index(body) for body in bodies]
    found = {}
    if len(bodies) == 2:
        if label == "table:other":
            sections = ["CIFAR-100, ", "SVHN, "]
        else:
            # Two tables side by side: the label follows the body.
            here = table.index(f"\\label{{{label}}}")
            chosen = [
                b for b, p in zip(bodies, places, strict=True) if p < here
            ]
            bodies, sections = chosen[-1:], [""]
    else:
        sections = [""]
    for body, section in zip(bodies, sections, strict=True):
        header, *rows = list(rows_of(body))
        for row in rows:
            if len(row) == 1:
                section = re.search(r"CIFAR-100|SVHN", row[0])[0] + ", "
                continue
            width = len(header) // header.count("Model")
            for start in range(0, len(row), width):
                cells = row[start : start + width]
                names = header[start : start + width]
                name = cells[0]
                if names[1] == r"$\beta$":
                    name += f", beta {cells[1]}"
                    cells, names = cells[1:], names[1:]
                found[section + name] = {
                    column: float(value)
                    for column, value in zip(names[1:], cells[1:], strict=True)
                }
    return found


def transposed(table):
    turned = {}
    for row, values in table.items():
        for column, value in values.items():
            turned.setdefault(column, {})[row] = value
    return turned


@pytest.fixture(scope="module")
def source():
    if not SOURCE.is_file():
        pytest.skip("the paper's source is not here")
    return SOURCE.read_text()


@pytest.mark.parametrize(
    "name", [k for k in paper_numbers.NUMBERS if k.startswith("table")]
)
def test_table_is_that_of_the_paper(name, source):
    record = paper_numbers.NUMBERS[name]
    expected = parse(source, record["label"])
    if name == "table11":
        expected = transposed(expected)
    assert record["rows"] == expected


def test_numbers_in_the_text_are_those_of_the_paper(source):
    text = re.sub(r"\s+", " ", source)
    assert "over $100$ test images is $1.95$, which is $1.56$ for PGD" in text
    assert paper_numbers.NUMBERS["figure1"]["rows"] == {
        "samples": {"distance": 1.95},
        "PGD": {"distance": 1.56},
    }
    assert r"is nearly $5\times$ slower than AT\textsubscript{PGD}" in text
    assert r"nearly $2\times$ faster than AT\textsubscript{PGD}" in text
    assert paper_numbers.NUMBERS["figure7"]["rows"] == {
        "ADT-EXP": {"ratio": 5.0},
        "ADT-EXP-AM": {"ratio": 0.5},
        "ADT-IMP-AM": {"ratio": 0.5},
    }


def test_the_file_is_plain_json():
    path = pathlib.Path(paper_numbers.__file__).with_name("paper_numbers.json")
    assert json.loads(path.read_text()) == paper_numbers.NUMBERS
