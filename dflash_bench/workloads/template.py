"""Fill a template: `{question}` becomes the row's field of that name.

Plain substitution in one pass: braces in the data are text like any other, and `{}` in a template stays as it is.
"""

import re
from typing import Any

from dflash_bench.errors import ConfigError, did_you_mean
from dflash_bench.workloads.rows import Row, is_unicode

FIELD = re.compile(r"\{(\w+)\}")


def fill(template: str, row: Row) -> str:
    """Return `template` with each `{field}` replaced; ConfigError names the file, the line and the field."""
    return FIELD.sub(lambda found: field_text(row, found[1]), template)


def field_text(row: Row, field: str) -> str:
    """Return a field as text: a string as it is, a number in decimal, a list of strings one per line."""
    if field not in row.fields:
        raise ConfigError(
            f"{row.where}: has no '{_escaped(field)}'."
            f" {did_you_mean(_escaped(field), map(_escaped, row.fields))}",
            remedy="Use the authors' own file, or change the template in the workload's YAML.",
        )
    return as_text(row.where, field, row.fields[field])


def as_text(where: str, field: str, value: Any) -> str:
    """Return `value` as text, or raise ConfigError naming its place."""
    if isinstance(value, str):
        return unicode_text(where, field, value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return unicode_text(where, field, "\n".join(value))
    raise ConfigError(
        f"{where}: '{_escaped(field)}' is neither text nor a number nor a list of texts.",
        remedy="Write it as a string.",
    )


def unicode_text(where: str, field: str, text: str) -> str:
    """Return `text`; ConfigError names its place where it holds half a surrogate pair, which no tokenizer can read."""
    if is_unicode(text):
        return text
    raise ConfigError(
        f"{where}: '{_escaped(field)}' holds a character that is not Unicode text.",
        remedy="Mend the \\u escape in that row.",
    )


def _escaped(key: str) -> str:
    """Escape what a terminal would obey or could not print: a key may be any text."""
    return repr(key)[1:-1]
