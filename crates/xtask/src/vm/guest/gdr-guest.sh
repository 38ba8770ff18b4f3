# Helpers for guest scripts: `. /lib/gdr-guest.sh`, then pass and fail; the verdict is written on exit. The exit status becomes 1 if
# anything failed, or nothing was checked.

verdict_passed=
verdict_failed=

# A string as JSON text without quotes.
json_text() { printf '%s' "$1" | tr '\n\t' '  ' | tr -d '\000-\037' | sed 's/[\\"]/\\&/g'; }

# pass NAME: a check passed.
pass() {
  echo "pass: $1"
  verdict_passed="$verdict_passed${verdict_passed:+,}\"$(json_text "$1")\""
}

# fail NAME WHY: a check failed.
fail() {
  echo "FAIL: $1: $2"
  verdict_failed="$verdict_failed${verdict_failed:+,}{\"name\":\"$(json_text "$1")\",\"why\":\"$(json_text "$2")\"}"
}

# expect NAME WANT GOT: checks that two strings are equal.
expect() {
  if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "wanted $2, got $3"; fi
}

# Waits until the other guest answers; else exits.
meet() {
  meet_tries=0
  until ping -c 1 -W 1 "$GDR_PEER" >/out/ping.txt 2>&1; do
    meet_tries=$((meet_tries + 1))
    if [ "$meet_tries" -gt 60 ]; then
      fail "ping $GDR_PEER" "no answer in a minute"
      exit 1
    fi
    sleep 1
  done
}

# One end of a probe between two guests: its name, its exit status, its options. Guest 1 is the server of probe $probe, guest 2 the client.
side() {
  name=$1
  code=$2
  shift 2
  if [ "$GDR_GUEST" = 1 ]; then
    gdr probe "$probe" --listen "$GDR_ADDRESS" --library-timeout 30 --format json "$@" >"/out/$name.json" 2>"/out/$name.txt"
  else
    gdr probe "$probe" "$GDR_PEER" --library-timeout 30 --format json "$@" >"/out/$name.json" 2>"/out/$name.txt"
  fi
  expect "$name" "$code" $?
  cat "/out/$name.txt"
}

verdict() {
  verdict_rc=$?
  [ -z "$verdict_passed$verdict_failed" ] && fail "claims" "the script claimed nothing"
  [ -n "$verdict_failed" ] && [ "$verdict_rc" = 0 ] && verdict_rc=1
  printf '{"simulated":"%s","passed":[%s],"failed":[%s]}\n' \
    "$GDR_SIMULATED" "$verdict_passed" "$verdict_failed" >/out/verdict.json
  exit "$verdict_rc"
}
trap verdict EXIT
