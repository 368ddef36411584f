"""The table that converts public forms of operations."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from pilum import LanceOperation
from pilum.dataset.forms import FORMS

NO_COMMITTED_FORM = {
    LanceOperation.BaseOperation,
    LanceOperation.DataOverlayFile,  # converts itself, as a DataFile does
    LanceOperation.RewrittenIndex,  # refused: the commit looks after the indices
    LanceOperation.UpdateMap,  # a kind of values
}


def test_every_public_class_is_in_the_table() -> None:
    public = {kind for kind in vars(LanceOperation).values() if is_dataclass(kind)}
    assert public - set(FORMS) == NO_COMMITTED_FORM


def test_every_field_is_converted_to_an_attribute() -> None:
    for public, form in FORMS.items():
        assert set(form.fields) == {field.name for field in fields(public)}
        attributes = {attribute for attribute, _ in form.fields.values() if attribute is not None}
        assert attributes <= {field.name for field in fields(form.committed)}
