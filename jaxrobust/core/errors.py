"""Every way a call can fail, as one readable line.

Each error carries the exit code the command line ends with, so that scripts can
tell bad input (2) from results that disagree (3), failed verification (4), training that broke down (5), programs
that do not fit a slice (6) and runs that were asked to stop and can be continued (75).
"""

from __future__ import annotations

# Characters of an error's text.
LONGEST = 1500


def first_line(error: BaseException) -> str:
  """Returns the first line of an error's text that says anything; its kind where none does.

  >>> first_line(ValueError("\\n  no such file \\n at line 3")), first_line(KeyError())
  ('no such file', 'KeyError')
  """
  return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def shortened(text: str) -> str:
  """Returns a text, or its beginning and end where it is too long: damaged files hold values of any length.

  >>> shortened("8/255 is a budget"), len(shortened("9" * 10**6)) <= LONGEST
  ('8/255 is a budget', True)
  """
  return text if len(text) <= LONGEST else f"{text[: LONGEST - 303]} … {text[-300:]}"


class JaxrobustError(Exception):
  """Base of all errors raised on purpose; its text is one line, and of a bounded length."""

  exit_code = 1

  def __str__(self) -> str:
    return shortened(super().__str__())


class InputError(JaxrobustError, ValueError):
  """Images, labels, budgets or options that no computation should start from."""

  exit_code = 2


class UnknownNameError(JaxrobustError, KeyError):
  """A name that no registry knows; the text lists the nearest known ones."""

  exit_code = 2

  def __str__(self) -> str:  # KeyError would print the repr, quotes included.
    return shortened(str(self.args[0]))


class CellMismatchError(JaxrobustError):
  """A stored result was made with another configuration than the one asked for."""

  exit_code = 3


class CorruptFileError(JaxrobustError):
  """A file that is truncated, damaged or not what its name says."""

  exit_code = 3


class StorageError(JaxrobustError, OSError):
  """A folder that cannot be written or a file that cannot be read."""

  exit_code = 3


class VerificationError(JaxrobustError):
  """An attack returned an image outside its threat model."""

  exit_code = 4


class TrainingError(JaxrobustError):
  """Training that cannot go on: a loss or weight that is not a number."""

  exit_code = 5


class SliceError(JaxrobustError):
  """A program that does not fit the chips it was compiled for, or has them communicate where they should not."""

  exit_code = 6


class StoppedError(JaxrobustError):
  """A run that was asked to end and saved what it had; running it again continues it."""

  exit_code = 75
