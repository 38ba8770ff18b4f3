#!/bin/sh
# Runs the aarch64 programs and libraries of a release under qemu-user. As root; Debian: qemu-user, gcc-aarch64-linux-gnu,
# libc6-dev-arm64-cross, libibverbs-dev. Maintainer scripts are not run.
#
#   packaging/tests/aarch64.sh OUT
set -eu
# gdr starts itself a second time for a probe, so the kernel must know the emulator. Linux 6.7 and later let a user namespace have its own
# binfmt_misc; the machine's is left alone.
if [ -z "${GDR_BINFMT:-}" ]; then
  export GDR_BINFMT=no
  unshare --map-root-user --mount sh -c 'mount -t binfmt_misc none /proc/sys/fs/binfmt_misc' 2>/dev/null && GDR_BINFMT=own
  [ "$GDR_BINFMT" = no ] || exec unshare --map-root-user --mount "$0" "$@"
fi
if [ "$GDR_BINFMT" = own ]; then
  mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
  printf '%s' ':aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/usr/bin/qemu-aarch64:' \
    >/proc/sys/fs/binfmt_misc/register
fi
export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
packages=$(realpath "$1")
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for deb in "$packages"/*_arm64.deb; do dpkg -x "$deb" "$scratch"; done
lib=$scratch/usr/lib/aarch64-linux-gnu
emulated() { qemu-aarch64 -E LD_LIBRARY_PATH="$lib" "$@"; }
cat >"$scratch/gdr" <<END
#!/bin/sh
QEMU_LD_PREFIX=$QEMU_LD_PREFIX exec qemu-aarch64 $scratch/usr/bin/gdr "\$@"
END
chmod +x "$scratch/gdr"

"$scratch/gdr" --version --verbose | tee "$scratch/output"
grep -qx 'target: aarch64-unknown-linux-gnu' "$scratch/output"
# The emulator's machine has no GPU: failed, or unknown.
status=0
"$scratch/gdr" doctor >"$scratch/output" || status=$?
[ "$status" = 1 ] || [ "$status" = 3 ] || { cat "$scratch/output" >&2; exit 1; }
if [ "$GDR_BINFMT" = own ]; then
  "$scratch/gdr" probe copy --sim >"$scratch/output" || { cat "$scratch/output" >&2; exit 1; }
  grep '^passed: ' "$scratch/output"
else
  echo "not run: gdr probe copy --sim, for want of a binfmt_misc of one's own (Linux 6.7)"
fi

# Every machine, recorded or written, gives the bytes of tests/golden.
GDR_TEST_PROGRAM=$scratch/gdr cargo test --quiet --test gdr golden::

compile() { aarch64-linux-gnu-gcc -Wall -Wextra -Werror -I"$scratch/usr/include" -L"$lib" "$@"; }
# Of MPI, the types that libmp's headers name: there is no MPI of aarch64 here.
echo 'typedef int MPI_Comm; typedef int MPI_Datatype;' >"$scratch/mpi.h"
for library in gdrapi gdsync mp; do
  # Of verbs, the headers alone, which are the same for both architectures.
  compile -std=c11 -I"$scratch" -idirafter /usr/include -Icrates/mp-capi/tests/stubs -Icrates/gdsync-capi/tests/stubs \
    -o "$scratch/layout" "crates/$library-capi/tests/c/layout.c" "-l$library"
  emulated "$scratch/layout"
done
compile -o "$scratch/quiet" crates/gdrapi-capi/tests/c/quiet.c -lgdrapi
GDR_BACKEND=sim emulated "$scratch/quiet" | grep -q open
echo "programs and libraries of aarch64 run under qemu-user"
