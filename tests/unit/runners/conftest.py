"""The fake server that tests of the client and of sessions ask; a file may give a `served` of its own."""

from collections.abc import Iterator

import pytest

from tests.fakes.served import Served, serving


@pytest.fixture
def served() -> Served:
    return Served(num_draft_tokens=3)


@pytest.fixture
def url(served: Served) -> Iterator[str]:
    with serving(served) as url:
        yield url
