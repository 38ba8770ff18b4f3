# Programs of libgdsync's C library, with a simulated CUDA, whose queue pairs are the kernel's: Soft-RoCE, by the proxy. Machine: rxe.
. /lib/gdr-guest.sh

echo '{"gpu": {"memory": 1073741824, "attributes": {"122": 1, "123": 1}}, "gpus": [{}]}' >/tmp/machine.json
export FAKE_CUDA=/tmp/machine.json ROCE_NIC=rxe0 GDS_HCA=proxy
for program in pairs requests pair_misuse pair_timeout; do
  [ "$program" = pair_timeout ] && export GDS_CPU_WAIT_TIMEOUT_MS=300
  timeout 120 "$program" >"/out/$program.txt" 2>&1
  code=$?
  tail -3 "/out/$program.txt"
  expect "$program" 0 "$code"
  for kind in qp mr cq pd; do rdma resource show "$kind"; done 2>/dev/null | grep -v 'comm \[' >/out/left.txt
  expect "$program leaves nothing at the NIC" "" "$(cat /out/left.txt)"
done
