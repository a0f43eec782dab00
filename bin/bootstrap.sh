# Sourced by the programs beside it, which set $here to the folder of both. Afterwards $root is the checkout, $python the interpreter of its environment, and
# that environment holds exactly what requirements.lock and pyproject.toml ask for. A start that finds it so costs two
# comparisons of files; any other start goes through bootstrap.py. FABRIC_VENV names another place than .venv.
# shellcheck shell=sh
set -eu

root=$(CDPATH='' cd "$here/.." && pwd -P)

venv=${FABRIC_VENV:-$root/.venv}
case $venv in
    /*) ;;
    *) venv=$PWD/$venv ;;
esac
python=$venv/bin/python
stamp=$venv/taskfabric-stamp # written last: the two files and the root that the environment was made from

ready() {
    [ -x "$python" ] && [ -f "$stamp/root" ] &&
        read -r made_for <"$stamp/root" && [ "$made_for" = "$root" ] &&
        cmp -s "$root/bin/requirements.lock" "$stamp/requirements.lock" &&
        cmp -s "$root/pyproject.toml" "$stamp/pyproject.toml"
}

# Sets $base to an interpreter that can make the environment, or stops with a word on what is missing.
find_base() {
    old='' bare=''
    for name in python3.13 python3.12 python3.11 python3; do
        # Asking the program, not its name: a version manager's shim may exist for a version that does not.
        answer=$("$name" -I -c '
import importlib.util as u, sys
v = "%d.%d" % sys.version_info[:2]
print("old" if sys.version_info < (3, 11) else "good" if u.find_spec("venv") and u.find_spec("ensurepip") else "bare", v)
' 2>/dev/null) || continue
        case $answer in
            good*) base=$name && return ;;
            bare*) bare=${bare:-${answer#* }} ;;
            old*) old=${answer#* } ;;
        esac
    done
    if [ -n "$bare" ]; then
        echo "taskfabric: Python $bare is here, but it cannot make virtual environments (no venv or ensurepip)." >&2
        echo "taskfabric: on Debian and Ubuntu: apt-get install python$bare-venv   (or python3-venv); then start again." >&2
    else
        echo "taskfabric: needs Python 3.11 or newer${old:+; the python3 here is $old}." >&2
        echo "taskfabric: on Debian 12 and newer: apt-get install python3 python3-venv; then start again." >&2
    fi
    exit 1
}

if ! ready; then
    find_base
    "$base" -I "$root/bin/bootstrap.py" "$root" "$venv" || exit $?
fi
if [ -n "${FABRIC_BOOTSTRAP_ONLY:-}" ]; then
    exit 0
fi
