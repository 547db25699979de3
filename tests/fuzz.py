"""Values nobody should write, and JSON with a few of them in it."""

import copy

HOSTILE = [
  "<script>alert(1)</script>",
  '"><img src=x onerror=alert(1)>',
  "</script><svg onload=alert(1)>",
  "../../../../etc/passwd",
  "javascript:alert(1)",
  "\x00\x07\u2028\u202e\ud800",
  "$\\frac{1}{0$ {{7*7}} ${x} %s %n",
  '=HYPERLINK("x")',
  "'; DROP TABLE cells; --",
  "x" * 20_000,
  "",
]
VALUES = [None, True, -1, 0, 10**30, -(10**30), 1e308, 0.5, [], {}, [[[]]], "nan", "8/0", "1e999", *HOSTILE]


def places(value, path=()):
  """Every place in a JSON value."""
  yield path
  children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
  for key, child in children:
    yield from places(child, (*path, key))


def mutated(document, chance):
  """A copy with a few values replaced, removed or renamed."""
  document = copy.deepcopy(document)
  for _ in range(chance.randint(1, 3)):
    path = chance.choice([path for path in places(document) if path])
    node = document
    for key in path[:-1]:
      node = node[key]
    action = chance.random()
    if action < 0.75:
      node[path[-1]] = chance.choice(VALUES)
    elif isinstance(node, dict):
      value = node.pop(path[-1])
      if action < 0.9:
        node[chance.choice(HOSTILE)] = value
  return document
