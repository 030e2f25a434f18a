"""Records of the program's JSON, with attributes."""

from __future__ import annotations

from typing import Any


class Record(dict):
    """A dict whose keys are attributes, too."""

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key) from None


class Records(list):
    """A list of records."""

    def to_pandas(self):
        """The records as a DataFrame; pandas must be installed."""
        import pandas

        return pandas.DataFrame([dict(row) for row in self])
