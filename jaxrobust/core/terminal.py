"""Text of others on a terminal and in spreadsheets: shown as it is, never obeyed."""

from __future__ import annotations

import re
import sys

# Escape sequences begin with control characters (C0, C1); others reverse the direction of what follows, or hide.
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def printable(text: object) -> str:
  """Returns one line of text in which control characters are written out.

  >>> printable("\x1b[2Jred\\n\u202e")
  '\\\\x1b[2Jred\\\\n\\\\u202e'
  """
  return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], str(text))


def say(text: object, *, error: bool = False) -> None:
  """Prints one line, on standard error if it is about a problem."""
  print(printable(text), file=sys.stderr if error else sys.stdout, flush=error)


def csv_text(text: str) -> str:
  """Returns text for a CSV file: spreadsheets run what begins like a formula, and an apostrophe stops them.

  >>> csv_text("=1+1"), csv_text("a\\nb")
  ("'=1+1", 'a b')
  """
  text = one_line(text)
  return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t") else text


def one_line(text: str) -> str:
  r"""Returns text with control characters, line breaks and what turns the direction of text around as spaces.

  >>> one_line("a\tb\u202ec\r\nd")
  'a b c d'
  """
  return re.sub(rf"(?:\t|{_CONTROLS.pattern})+", " ", text)
