# What debian.sh and rpm.sh have in common.
fail() { echo "$*" >&2; exit 1; }

# Fails unless the command ends with one of the statuses.
ends() {
  wanted=$1
  shift
  status=0
  "$@" >/tmp/output 2>&1 || status=$?
  case " $wanted " in *" $status "*) ;; *) cat /tmp/output >&2; fail "$*: $status" ;; esac
}

files() { find / -xdev \( -path /tmp -o -path /var -o -path /etc/ld.so.cache \) -prune -o -print | sort; }

# What the packages are for, as their users do it.
uses() {
  gdr --version --verbose
  # No GPU here: failed, or unknown.
  ends "1 3" gdr doctor
  gdr topo --from /checkout/snapshot.json | grep -q GPU0
  gdr probe copy --sim --test create >/dev/null
  man -w gdr gdr-doctor >/dev/null
  man gdr | grep -q GPUDirect
  bash -c '. /usr/share/bash-completion/bash_completion; . /usr/share/bash-completion/completions/gdr; complete -p gdr' | grep -q _gdr
  for library in $(sed -n 's/.*gdr-lib\(.*\)-dev.*/\1/p' /checkout/packages); do
    pkg-config --exists "$library"
    ldconfig -p | grep -q "lib$library\.so\.[0-9]* .*=> /\(usr/\)\?lib"
  done
  ls /usr/share/doc/gdr-libgdrapi-dev*/gdrcopy.md* /usr/share/doc/gdr-libgdrapi-dev*/examples/copy.c* >/dev/null
  gcc -o /tmp/program /checkout/quiet.c $(pkg-config --cflags --libs gdrapi)
  GDR_BACKEND=sim /tmp/program
}

# A repair that is not undone, and a unit that runs gdr.
repair() {
  gdr fix memlock --yes >/tmp/repair
  mkdir -p /etc/systemd/system
  printf '[Service]\nExecStart=/usr/bin/gdr fix-acs\n' >/etc/systemd/system/gdr-acs.service
}

# Removal warned of both.
warned() {
  grep -q 'memlock: made' /tmp/removal
  grep -q 'gdr-acs.service runs gdr at boot' /tmp/removal
  rm /etc/systemd/system/gdr-acs.service
}

# Nothing is left but the journal.
removed() {
  ldconfig
  ! /tmp/program 2>/dev/null || fail "the library is still there"
  files | diff /tmp/before - || fail "files were left, or taken"
  [ -d /var/lib/gdr/journal ]
}
