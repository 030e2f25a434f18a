#!/bin/sh
# The example that opens each public header, as a test: header_examples.sh HEADER.. > examples.cpp. A header without one is
# an error. One that names a file, which is not there, may throw narrow::Error; a wrong static_assert does not compile.
set -e
printf '#include <doctest/doctest.h>\n\n#include <cstdio>\n#include <vector>\n\n'
for header in "$@"; do printf '#include "%s"\n' "narrow/${header##*/narrow/}"; done
for header in "$@"; do
  awk -v name="narrow/${header##*/narrow/}" '
    !/^\/\// { exit }
    /^\/\/   [^ ]/ || (lines && /^\/\/    /) { sub(/^\/\/   /, "    "); text = text $0 "\n"; lines++ }
    END {
      if (!lines) { print name ": no example opens this header" > "/dev/stderr"; exit 1 }
      names_file = text ~ /\.(safetensors|npy|npz|json)[":]/
      printf "\nTEST_CASE(\"example of %s\") {\n  %s{\n    using namespace narrow;\n%s  }%s\n}\n", name,
             names_file ? "try " : "", text, names_file ? " catch (const narrow::Error&) {\n  }" : ""
    }' "$header"
done
