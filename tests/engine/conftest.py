"""What all tests of the engine work on."""

import pytest

from jaxrobust import testing


@pytest.fixture(scope="module")
def work():
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 50)
  labels[::9] = (labels[::9] + 1) % testing.CLASSES  # Some are wrong from the start.
  return classifier, images, labels
