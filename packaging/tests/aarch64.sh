#!/bin/sh
# Runs the aarch64 programs and libraries of a release under qemu-user. Debian: qemu-user, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross,
# libibverbs-dev. Maintainer scripts are not run: that needs binfmt_misc of the kernel.
#
#   packaging/tests/aarch64.sh OUT
set -eu
packages=$(realpath "$1")
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for deb in "$packages"/*_arm64.deb; do dpkg -x "$deb" "$scratch"; done
lib=$scratch/usr/lib/aarch64-linux-gnu
emulated() { qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$lib" "$@"; }
cat >"$scratch/gdr" <<END
#!/bin/sh
exec qemu-aarch64 -L /usr/aarch64-linux-gnu $scratch/usr/bin/gdr "\$@"
END
chmod +x "$scratch/gdr"

"$scratch/gdr" --version --verbose | tee "$scratch/output"
grep -qx 'target: aarch64-unknown-linux-gnu' "$scratch/output"
# The emulator's machine has no GPU: failed, or unknown.
status=0
"$scratch/gdr" doctor >"$scratch/output" || status=$?
[ "$status" = 1 ] || [ "$status" = 3 ] || { cat "$scratch/output" >&2; exit 1; }
"$scratch/gdr" probe copy --sim --test create >"$scratch/output" || { cat "$scratch/output" >&2; exit 1; }

# Every machine, recorded or written, gives the bytes of tests/golden.
GDR_TEST_PROGRAM=$scratch/gdr cargo test --quiet --test gdr golden::

compile() { aarch64-linux-gnu-gcc -Wall -Wextra -Werror -I"$scratch/usr/include" -L"$lib" "$@"; }
for library in gdrapi gdsync; do
  # Of verbs, the headers alone, which are the same for both architectures.
  compile -std=c11 -idirafter /usr/include -Icrates/gdsync-capi/tests/stubs -o "$scratch/layout" "crates/$library-capi/tests/c/layout.c" "-l$library"
  emulated "$scratch/layout"
done
compile -o "$scratch/quiet" crates/gdrapi-capi/tests/c/quiet.c -lgdrapi
GDR_BACKEND=sim emulated "$scratch/quiet" | grep -q open
echo "programs and libraries of aarch64 run under qemu-user"
