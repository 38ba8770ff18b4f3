#!/bin/sh
# Installs this archive in a prefix, without root if the prefix is yours.
#
#   ./install.sh [PREFIX]              /usr/local by default
#   ./install.sh --remove [PREFIX]
set -eu
cd "$(dirname "$0")"
remove=
if [ "${1:-}" = --remove ]; then
  remove=yes
  shift
fi
prefix=${1:-/usr/local}
case $prefix in
/*) ;;
*)
  echo "install.sh: the prefix $prefix is not an absolute path" >&2
  exit 2
  ;;
esac
find bin lib share include ! -type d | sort | while read -r file; do
  if [ -n "$remove" ]; then
    rm -f "$prefix/$file"
    continue
  fi
  mkdir -p "$prefix/$(dirname "$file")"
  # A process that uses the old file keeps it.
  cp -P "$file" "$prefix/$file.new"
  mv -f "$prefix/$file.new" "$prefix/$file"
done
if [ -n "$remove" ]; then
  echo "gdr was removed from $prefix; /var/lib/gdr, if it exists, has the journals of repairs"
else
  echo "gdr is in $prefix/bin, the libraries are in $prefix/lib"
fi
