# Programs of libmp's C library as two ranks of MPICH, with a simulated CUDA; their queue pairs are the kernel's: Soft-RoCE, by the proxy.
# Machine: rxe.
. /lib/gdr-guest.sh

echo '{"gpu": {"memory": 1073741824, "attributes": {"122": 1, "123": 1}}, "gpus": [{}, {}]}' >/tmp/machine.json
export FAKE_CUDA=/tmp/machine.json MP_HCA=proxy MP_TIMEOUT_MS=60000 UCX_TLS=self,posix,tcp
for program in messages windows misuse; do
  timeout 120 mpiexec.hydra -launcher fork -n 2 "$program" >"/out/$program.txt" 2>"/out/$program.err"
  code=$?
  tail -3 "/out/$program.txt" "/out/$program.err"
  expect "$program" 0 "$code"
  expect "$program of two ranks" 2 "$(grep -o "$program: ok" "/out/$program.txt" | wc -l)"
  for kind in qp mr cq pd; do rdma resource show "$kind"; done 2>/dev/null | grep -v 'comm \[' >/out/left.txt
  expect "$program leaves nothing at the NIC" "" "$(cat /out/left.txt)"
done
