#!/bin/sh
# Question: which text does `narrow train --task lm` learn? The project's documents and headers as they were when this ran,
# one after the other. The file is kept, so that losses can be compared from version to version: run this only to start
# a new series. Run: sh data/text/make_corpus.sh, from the root of the project.
set -eu
cat README.md CONTRIBUTING.md lib/README.md lib/narrow/base/*.hpp lib/narrow/format/*.hpp lib/narrow/round/*.hpp \
  lib/narrow/arith/*.hpp lib/narrow/scale/*.hpp lib/narrow/dot/*.hpp | gzip -9n > data/text/corpus.txt.gz
