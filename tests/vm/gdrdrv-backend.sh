# gdrcopy's gdrdrv backend against all versions of the fake module. Machine: gdrdrv; needs the binary `module`
# (crates/gdrcopy/examples/module.rs), which makes the assertions.
. /lib/gdr-guest.sh
. /lib/gdrdrv.sh

base=0x7f0000000000

# claimed NAME WHAT: a result of the program.
claimed() {
  module "$base" "$2" >/tmp/module.txt 2>&1
  expect "$1" 0 $?
  echo "$1: $(cat /tmp/module.txt)" | tee -a /out/module.txt
}

module "$base" refused >/tmp/module.txt
expect "without a node" 0 $?
expect "and why" 1 "$(grep -c 'errno 19.*no /dev/gdrdrv' /tmp/module.txt)"

for version in 0x20000 0x20003 0x20004 0x20005 0x20006; do
  gdrdrv_load version=$version
  claimed "version $version" basic
  expect "no pin is left" "" "$(cat /proc/gdrdrv-fake/pins)"
  gdrdrv_unload
done

gdrdrv_load
gdrdrv_set minimum_api_version 0x20007
claimed "a module that wants a newer library" refused
expect "and why" 1 "$(grep -c '^errno.*needs library version 2.7' /tmp/module.txt)"
gdrdrv_set minimum_api_version 0x10000
gdrdrv_set version 0x10003
claimed "a module of 1.x" refused
expect "and why" 1 "$(grep -c '^errno.*does not answer like gdrdrv 2' /tmp/module.txt)"
gdrdrv_unload

gdrdrv_load force_pcie=1
claimed "force_pcie" basic
gdrdrv_unload

gdrdrv_load persistent=0
claimed "revocation" revoked
expect "no pin is left" "" "$(cat /proc/gdrdrv-fake/pins)"
gdrdrv_unload

gdrdrv_load
claimed "taken away between two calls" eagain
gdrdrv_unload

gdrdrv_load bar=1
claimed "a BAR" basic
expect "mapped as" 1 "$(grep -c 'mapped as Write Combining' /tmp/module.txt)"
gdrdrv_unload

gdrdrv_load cached=1
claimed "cached" basic
expect "mapped as" 1 "$(grep -c 'mapped as Caching' /tmp/module.txt)"
gdrdrv_unload

dmesg >/out/dmesg.txt
expect "complaints of the kernel" "" "$(grep -E 'BUG|WARNING|Oops|leak|x86/PAT.*(conflict|got)' /out/dmesg.txt)"
