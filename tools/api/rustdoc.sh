#!/bin/sh
# rustdoc for tools/api.sh: its JSON is not stable yet, so the pinned rustdoc has to be allowed to write it. Cargo and rustc
# are not told, so what they have compiled stays valid.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
