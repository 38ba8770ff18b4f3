# All verbs operations of gdr between two queue pairs of a Soft-RoCE port. Machine: rxe.
. /lib/gdr-guest.sh

loopback rxe0 >/out/loopback.txt 2>&1
expect "loopback" 0 $?
cat /out/loopback.txt
pass "collected"
