"""The fixture `holdfast_cluster` for pytest: a holdfast.testing.FakeCluster."""

import pytest

from .testing import FakeCluster


@pytest.fixture
def holdfast_cluster() -> FakeCluster:
    return FakeCluster()
