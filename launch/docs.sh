#!/usr/bin/env bash
# The documentation site in build/site, from jaxrobust/docs and the docstrings; any warning or broken link is an error.
#   bash launch/docs.sh          builds it
#   bash launch/docs.sh serve    shows it while it is written
source "$(dirname "${BASH_SOURCE[0]}")/_environment.sh"
prepare docs
cd "$root"
if [ "${1:-}" = serve ]; then exec "$venv/bin/mkdocs" serve; fi
export NO_MKDOCS_2_WARNING=1 # An advertisement, not a warning of this build.
exec "$venv/bin/mkdocs" build --strict --quiet
