"""The paper's numbers in the package are those that the paper prints."""

import pytest

from adt_tf.reproduction import paper_numbers
from tests.support import paper_tables


def test_every_table_and_figure_with_numbers_is_there():
    assert set(paper_numbers.NUMBERS) == set(paper_tables.TABLES)


@pytest.mark.parametrize("name", paper_tables.TABLES)
def test_numbers_are_those_of_the_paper(name):
    assert paper_numbers.rows(name) == paper_tables.TABLES[name]


@pytest.mark.parametrize("name", paper_tables.TABLES)
def test_columns_are_in_the_papers_order(name):
    ours, theirs = paper_numbers.rows(name), paper_tables.TABLES[name]
    for label in theirs:
        assert list(ours[label]) == list(theirs[label])


@pytest.mark.parametrize("name", paper_tables.TABLES)
def test_source_names_the_table(name):
    source = paper_numbers.NUMBERS[name]["source"]
    if name.startswith("table"):
        assert source == f"Table {name.removeprefix('table')}"
    else:
        assert source.endswith(f"Figure {name.removeprefix('figure')}")


def test_full_tables_agree_with_their_parts():
    """Tables 2 and 5 print some columns of Tables 9 and 10."""
    for part, whole in (("table2", "table9"), ("table5", "table10")):
        for label, row in paper_numbers.rows(part).items():
            full = paper_numbers.rows(whole)[label]
            assert row == {column: full[column] for column in row}


def test_a_target_without_numbers_is_refused():
    with pytest.raises(ValueError, match="no other numbers.*'figure2'"):
        paper_numbers.rows("figure2")
