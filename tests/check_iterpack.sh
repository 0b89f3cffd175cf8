#!/bin/sh
# iterpack from outside: MXNet's bytes, shards, resuming after an interruption, faults that verify
# finds, exit codes.
# Usage: ITERPACK=build/tools/iterpack/iterpack check_iterpack.sh SOURCE_DIR
cd "$1" || exit 2
if [ -z "$ITERPACK" ]; then echo "skipped: no iterpack"; exit 77; fi
golden=$(pwd)/tests/golden/recordio
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
bad=0
fault() { echo "check_iterpack: $*"; bad=1; }

# status WANTED ARGUMENTS: checks the exit status; errors are on stderr only.
status() {
    want=$1; shift
    "$ITERPACK" "$@" >"$dir/out" 2>"$dir/err"; got=$?
    [ $got = "$want" ] || fault "status $got, not $want: $*: $(head -c 300 "$dir/err")"
    if [ "$want" = 0 ]; then
        [ ! -s "$dir/err" ] || fault "stderr is not empty: $*: $(head -c 300 "$dir/err")"
    else
        [ -s "$dir/err" ] || fault "an error without a message: $*"
    fi
}
says() { grep -q -- "$1" "$dir/$2" || fault "no \"$1\" in $2: $(head -c 300 "$dir/$2")"; }

# The files of tests/golden/make_recordio.py; 0a 23 d7 ce is the magic.
mkdir -p "$dir/set/a" "$dir/set/b"
: >"$dir/set/a/0"
printf hello >"$dir/set/a/1"
printf '\012\043\327\316\012\043\327\316x' >"$dir/set/b/2"
{ printf '%300s' '' | tr ' ' x; printf '\012\043\327\316yyyyyyy'; } >"$dir/set/b/3 3"

for name in one three; do
    for threads in 1 3; do
        rm -f "$dir/$name.rec" "$dir/$name.idx"
        status 0 pack "$golden/$name.lst" "$dir/$name.rec" --root "$dir/set" --threads $threads
        says '^4 records written$' out
        cmp -s "$golden/$name.rec" "$dir/$name.rec" || fault "$name.rec is not MXNet's"
        cmp -s "$golden/$name.idx" "$dir/$name.idx" || fault "$name.idx is not MXNet's"
    done
    status 0 verify "$dir/$name.rec"
    status 0 verify "$dir/$name.rec" --list "$golden/$name.lst" --root "$dir/set"
    status 0 info "$dir/$name.rec"
    says '^  content  0 to 311 bytes' out
done
says '3 a record, 1 to 3.42857' out
[ -z "$(ls "$dir" | grep part)" ] || fault "parts are left: $(ls "$dir")"
status 1 pack "$golden/one.lst" "$dir/one.rec" --root "$dir/set" # never over a file that exists
says 'exists already' err

# Shards: parts of the list in its order, which together have the same records.
status 0 pack "$golden/three.lst" "$dir/s.rec" --root "$dir/set" --shards 3
[ "$(cat "$dir"/s-0000[012].idx | cut -f1 | tr '\n' ' ')" = "0 1 2 3 " ] || fault "keys of shards: $(cat "$dir"/s-*.idx)"
cat "$dir"/s-0000[012].rec | cmp -s - "$golden/three.rec" || fault "shards are not the whole"
status 0 verify "$dir/s-00000.rec" "$dir/s-00001.rec" "$dir/s-00002.rec" --list "$golden/three.lst" --root "$dir/set"

# If complete shards exist, they may belong to other work, or to this one, which was interrupted
# after them.
status 1 pack "$golden/three.lst" "$dir/s.rec" --root "$dir/set" --shards 3
says 'exists already' err
[ -z "$(ls "$dir"/s-*.of 2>/dev/null)" ] || fault "marks of shards are left: $(ls "$dir")"

# Interrupted when only marks were left to remove: the same command finishes at once, and another
# one is not blocked.
lose() { mv "$dir/set/b/3 3" "$dir/lost"; }
find_again() { mv "$dir/lost" "$dir/set/b/3 3"; }
rm -f "$dir"/s-*; lose; status 1 pack "$golden/three.lst" "$dir/s.rec" --root "$dir/set" --shards 3
cp "$dir/s-00000.rec.part.of" "$dir/mark"
find_again
status 0 pack "$golden/three.lst" "$dir/s.rec" --root "$dir/set" --shards 3
cp "$dir/mark" "$dir/s-00000.rec.part.all"; cp "$dir/mark" "$dir/s-00002.rec.part.of"
status 0 pack "$golden/three.lst" "$dir/s.rec" --root "$dir/set" --shards 3
says '^0 records written' out
[ -z "$(ls "$dir"/s-*.of "$dir"/s-*.all 2>/dev/null)" ] || fault "marks of shards are left: $(ls "$dir")"
cp "$dir/mark" "$dir/s-00000.rec.part.all"; rm "$dir"/s-0000?.rec "$dir"/s-0000?.idx # and then taken away: made anew
status 0 pack "$golden/three.lst" "$dir/s.rec" --root "$dir/set" --shards 3
says '^4 records written' out
cat "$dir"/s-0000[012].rec | cmp -s - "$golden/three.rec" || fault "shards that were taken away are not the whole"
cp "$dir/mark" "$dir/s-00000.rec.part.all"
status 1 pack "$golden/one.lst" "$dir/s.rec" --root "$dir/set" --shards 3
says 'exists already' err
rm "$dir/s-00000.rec.part.all"
lose; status 1 pack "$golden/one.lst" "$dir/t.rec" --root "$dir/set"
cp "$dir/t.rec.part.of" "$dir/mark"
find_again
status 0 pack "$golden/one.lst" "$dir/t.rec" --root "$dir/set"
cp "$dir/mark" "$dir/t.rec.part.of"
status 0 pack "$golden/one.lst" "$dir/t.rec" --root "$dir/set"
says '^0 records written' out
status 1 pack "$golden/one.lst" "$dir/t.rec" --root "$dir/set"

# A list from an editor that puts a byte order mark first.
{ printf '\357\273\277'; cat "$golden/one.lst"; } >"$dir/marked.lst"
status 0 pack "$dir/marked.lst" "$dir/u.rec" --root "$dir/set"
cmp -s "$golden/one.rec" "$dir/u.rec" || fault "a list with a mark: not the same .rec"

# Files that are not images are packed unchanged, with a message.
says '^warning: packed as they are: 1 empty files, 3 .* no JPEG, PNG or WebP; the first is item ' out

# Lines with more or fewer labels than the first.
printf '0\t1\tx\n1\t2\t3\ty\n' >"$dir/labels.lst"
status 1 pack "$dir/labels.lst" "$dir/l.rec"
says 'line 2: has 4 columns, the first line has 3' err

# More files than are read ahead.
i=0
while [ $i -lt 300 ]; do printf '%d\t%d\tmany/%d\n' $i $i $i; i=$((i + 1)); done >"$dir/many.lst"
mkdir "$dir/many"
while read -r id label path; do printf "%${id}s" "$label" >"$dir/$path"; done <"$dir/many.lst"
for threads in 1 4; do
    rm -f "$dir"/m.*
    status 0 pack "$dir/many.lst" "$dir/m.rec" --threads $threads
    status 0 verify "$dir/m.rec" --list "$dir/many.lst"
    says '300 records, as in its index, with labels and bytes' out
done

# A run that ended early, after 0 to 3 records on the disk and with any garbage after them.
for lines in 0 1 2 3; do
    rm -f "$dir"/r.*
    lose
    status 1 pack "$golden/one.lst" "$dir/r.rec" --root "$dir/set"
    says 'b/3 3: No such file' err
    [ ! -e "$dir/r.rec" ] || fault "a .rec before it is complete"
    head -n $lines "$dir/r.idx.part" >"$dir/cut" && printf '9999' >>"$dir/cut" && mv "$dir/cut" "$dir/r.idx.part"
    head -c 1000 /dev/zero >>"$dir/r.rec.part"
    find_again
    status 0 pack "$golden/one.lst" "$dir/r.rec" --root "$dir/set"
    says "^$((4 - lines)) records written" out
    cmp -s "$golden/one.rec" "$dir/r.rec" || fault "taken up after $lines records: not the same .rec"
    cmp -s "$golden/one.idx" "$dir/r.idx" || fault "taken up after $lines records: not the same .idx"
done
# Not resumed: another list, another root, a .rec that lacks records of its index.
rm -f "$dir"/r.*; mkdir "$dir/gone"
status 1 pack "$golden/one.lst" "$dir/r.rec" --root "$dir/gone"
status 1 pack "$golden/three.lst" "$dir/r.rec" --root "$dir/set"
says 'another list or with other options' err
status 0 pack "$golden/three.lst" "$dir/r.rec" --root "$dir/set" --restart
cmp -s "$golden/three.rec" "$dir/r.rec" || fault "--restart: not the same .rec"
rm -f "$dir"/r.*; cp -r "$dir/set/." "$dir/gone"; rm "$dir/gone/b/3 3"
status 1 pack "$golden/one.lst" "$dir/r.rec" --root "$dir/gone"
for skip in "" --skip; do
    status 1 pack "$golden/one.lst" "$dir/r.rec" --root "$dir/set" $skip
    says "r.rec.part: was begun with files from $dir/gone, and this run's are from $dir/set (--root); --restart forgets it$" err
done
status 1 pack "$golden/one.lst" "$dir/r.rec" --root "$dir/gone/../gone/" # the same one
says 'item 4: b/3 3: No such file' err
head -c 80 "$dir/r.rec.part" >"$dir/cut" && mv "$dir/cut" "$dir/r.rec.part"
status 1 pack "$golden/one.lst" "$dir/r.rec" --root "$dir/gone"
says 'ends before its index' err

# Files that cannot be read.
rm -f "$dir"/r.*
"$ITERPACK" pack "$golden/one.lst" "$dir/r.rec" --root "$dir/gone" --skip >"$dir/out" 2>"$dir/err" || fault "--skip"
says 'one.lst: item 4: b/3 3: No such file' err
[ "$(cut -f1 "$dir/r.idx" | tr '\n' ' ')" = "7 3 1099511627776 " ] || fault "--skip: $(cat "$dir/r.idx")"
says '3 records written, 1 files skipped' out
status 0 verify "$dir/r.rec"
status 1 verify "$dir/r.rec" --list "$golden/one.lst" --root "$dir/set"
says 'has 4 files, 3 records' err
mkdir "$dir/none" && status 1 pack "$golden/one.lst" "$dir/none.rec" --root "$dir/none" --skip
says 'none of the [0-9]* files can be packed; names are relative to .*/none (--root)' err
[ ! -e "$dir/none.rec" ] || fault "a .rec of nothing"
status 1 verify "$dir/r.rec" --list "$golden/one.lst" --root "$dir/set" --skip # it could be read
says 'item 4 is in no record, and its file can be read: b/3 3' err
status 0 verify "$dir/r.rec" --list "$golden/one.lst" --root "$dir/gone" --skip
says '1 files that cannot be read are left out' out
status 2 verify "$dir/r.rec" --skip

# If one in the middle is missing, the records after it are still those of their own files.
rm -f "$dir"/r.*; cp "$dir/set/b/3 3" "$dir/gone/b"; rm "$dir/gone/a/1"
middle=$(awk -F'\t' '$NF == "a/1" { print NR }' "$golden/one.lst")
status 1 pack "$golden/one.lst" "$dir/r.rec" --root "$dir/gone"
says 'a/1: No such file' err
says 'with --skip leaves out files like this one' err
"$ITERPACK" pack "$golden/one.lst" "$dir/r.rec" --root "$dir/gone" --skip >"$dir/out" 2>"$dir/err" || fault "--skip from where it ended: $(cat "$dir/err")"
says "^$((4 - middle)) records written, $((middle - 1)) were there, 1 files skipped$" out
[ -z "$(ls "$dir" | grep 'r.rec.part')" ] || fault "parts are left: $(ls "$dir")"
status 0 verify "$dir/r.rec" --list "$golden/one.lst" --root "$dir/gone" --skip
status 1 verify "$dir/r.rec" --list "$golden/one.lst" --root "$dir/gone"
says "item $middle of the list is in no record: a/1" err
says '1 items of the list are in no record: with --skip' err
[ "$(wc -l <"$dir/err")" = 2 ] || fault "more than the missing file: $(cat "$dir/err")"
# A run begun with --skip is not resumed without it: the list of skipped files is not known to be
# complete.
rm -f "$dir"/r.*; mkdir "$dir/r.idx"
"$ITERPACK" pack "$golden/one.lst" "$dir/r.rec" --root "$dir/gone" --skip >"$dir/out" 2>"$dir/err" && fault "an index over a folder"
rmdir "$dir/r.idx"
status 1 pack "$golden/one.lst" "$dir/r.rec" --root "$dir/gone"
says 'with other options' err
# Nor are shards. If they were begun without --skip, all are resumed with it, but not if complete
# ones are from another root.
rm -f "$dir"/s-*; cp -r "$dir/set" "$dir/less"; rm "$dir/less/b/3 3"
status 1 pack "$golden/three.lst" "$dir/s.rec" --root "$dir/less" --shards 4
status 1 pack "$golden/three.lst" "$dir/s.rec" --root "$dir/set" --shards 4
says "s-00000.rec.part: was begun with files from $dir/less, and " err
"$ITERPACK" pack "$golden/three.lst" "$dir/s.rec" --root "$dir/less" --shards 4 --skip >"$dir/out" 2>"$dir/err" || fault "--skip with shards: $(cat "$dir/err")"
status 0 verify "$dir"/s-*.rec --list "$golden/three.lst" --root "$dir/less" --skip

# Skipped files and files that are not images are counted over all runs that made a file, as if it
# were one run.
rm -f "$dir"/r.*; "$ITERPACK" pack "$golden/one.lst" "$dir/r.rec" --root "$dir/set" >"$dir/whole" 2>&1
says '^warning: packed as they are: 1 empty files, 3 that' whole
rm -f "$dir"/r.*; lose; status 1 pack "$golden/one.lst" "$dir/r.rec" --root "$dir/set"; find_again
status 0 pack "$golden/one.lst" "$dir/r.rec" --root "$dir/set"
[ "$(grep '^warning' "$dir/out")" = "$(grep '^warning' "$dir/whole")" ] || fault "resumed: $(cat "$dir/out"), in one go: $(cat "$dir/whole")"
rm -f "$dir"/s-*; lose; status 1 pack "$golden/three.lst" "$dir/s.rec" --root "$dir/set" --shards 2; find_again
status 0 pack "$golden/three.lst" "$dir/s.rec" --root "$dir/set" --shards 2
says '^warning: packed as they are: 1 empty files, 3 that' out

# Duplicate ids: a warning, but the records are written.
printf '7\t1\ta/1\n8\t1\ta/0\n7\t2\tb/2\n7\t2\tb/2\n8\t2\tb/2\n' >"$dir/twice.lst"
"$ITERPACK" pack "$dir/twice.lst" "$dir/twice.rec" --root "$dir/set" >"$dir/out" 2>"$dir/err" || fault "ids that stand twice: $(cat "$dir/err")"
says 'warning: .*twice.lst: 2 ids occur more than once, 7 is the smallest' err
"$ITERPACK" verify "$dir/twice.rec" --list "$dir/twice.lst" --root "$dir/set" >"$dir/out" 2>"$dir/err" || fault "verify of ids that stand twice: $(cat "$dir/err")"
says 'warning: .*twice.rec: 2 ids occur more than once' err

# Labels by the rules of folder: a list that folder: refuses is not packed.
for label in nan 1e400 1_000 1e39 cat; do
    printf '0\t%s\ta/1\n1\t2\tb/2\n' $label >"$dir/odd.lst"
    status 1 pack "$dir/odd.lst" "$dir/odd.rec" --root "$dir/set"
    says "odd.lst: line 1, column 2: label '$label'" err
done

# File names do not reach the terminal unescaped.
escape=$(printf '\033')
printf '0\t1\ta/%s[31m\n1\t1\ta/1\n' "$escape" >"$dir/escape.lst"
status 1 pack "$dir/escape.lst" "$dir/escape.rec" --root "$dir/set"
says 'item 1: a/.x1b.31m: No such file' err
printf x >"$dir/set/a/$escape[31m"
status 0 pack "$dir/escape.lst" "$dir/escape.rec" --root "$dir/set"
says 'the first is item 1: a/.x1b.31m$' out
printf y >"$dir/set/a/$escape[31m"
status 1 verify "$dir/escape.rec" --list "$dir/escape.lst" --root "$dir/set"
if cat "$dir/out" "$dir/err" | grep -q "$escape"; then fault "an escape sequence of a file's name is printed"; fi
rm "$dir/set/a/$escape[31m"

# If output cannot be printed, the command fails, whatever it did before.
if [ -w /dev/full ]; then
    for command in "info $dir/m.rec" "verify $dir/m.rec" "list $dir/photos" "list $dir/photos /dev/full" "--help" "--version"; do
        mkdir -p "$dir/photos/dog"; : >"$dir/photos/dog/2.jpg"
        # shellcheck disable=SC2086
        "$ITERPACK" $command >/dev/full 2>"$dir/err"; got=$?
        [ $got = 1 ] || fault "a full device: status $got: $command"
        says 'No space left on device' err
    done
fi

# Many faults: the first ten, their number, and a likely cause.
mkdir -p "$dir/wrong/many" && for file in "$dir"/many/*; do printf x >"$dir/wrong/many/${file##*/}"; done
status 1 verify "$dir/m.rec" --list "$dir/many.lst" --root "$dir/wrong"
[ "$(wc -l <"$dir/err")" = 12 ] || fault "$(wc -l <"$dir/err") lines for 300 files that differ"
says 'record 2 at .*: has other bytes than the file many/2$' err
says '300 faults, of which the first 10 are shown' err
says '300 of 300 records have other bytes than their files: was it packed with other options (--resize' err

# Faults that verify finds: bytes of one.rec changed; each place with its message.
damage() { # OFFSET OCTAL REASON
    cp "$golden/one.rec" "$dir/d.rec"; cp "$golden/one.idx" "$dir/d.idx"
    printf "\\$2" | dd of="$dir/d.rec" bs=1 seek="$1" conv=notrunc 2>/dev/null
    status 1 verify "$dir/d.rec" --list "$golden/one.lst" --root "$dir/set"
    says "$3" err
}
damage 0 013 'at 0 is 0xced7230b, a record.s magic is'
damage 7 040 'the piece at 32 has flag 0, which does not go on with a record'
damage 7 100 'the piece at 0 has flag 2, which does not begin a record'
damage 40 002 'record 1 at 32: is shorter than its header'
damage 44 001 'record 1 at 32: has another label'
damage 48 001 'record 1 at 32: has another id'
damage 64 001 'record 1 at 32: has other bytes than the file'
cp "$golden/one.rec" "$dir/d.rec"; printf '7\t0\n3\t36\n1099511627776\t72\n14904420021132796682\t124\n' >"$dir/d.idx"
status 1 verify "$dir/d.rec"; says 'the index has offset 36 for it (line 2)' err
head -n 3 "$golden/one.idx" >"$dir/d.idx"; status 1 verify "$dir/d.rec"; says 'is not in the index' err
head -c 470 "$golden/one.rec" >"$dir/d.rec"; status 1 verify "$dir/d.rec"; says 'ends in the head of a record, at 468' err
cp "$golden/one.rec" "$dir/d.rec"; cp "$golden/one.idx" "$dir/d.idx"
printf '\001' | dd of="$dir/d.rec" bs=1 seek=71 conv=notrunc 2>/dev/null # after "hello"
status 1 verify "$dir/d.rec"; says 'record 1 at 32: is not padded with zeros' err
# With a list, a flipped bit anywhere before a record's content is found: 32 bytes from the second
# record on.
i=0
while [ $i -lt 32 ]; do
    cp "$golden/one.rec" "$dir/d.rec"
    byte=$(od -An -tu1 -j $((32 + i)) -N1 "$dir/d.rec" | tr -d ' ')
    flipped=$((byte ^ (1 << i % 8)))
    printf "\\$(printf %o $flipped)" | dd of="$dir/d.rec" bs=1 seek=$((32 + i)) conv=notrunc 2>/dev/null
    status 1 verify "$dir/d.rec" --list "$golden/one.lst" --root "$dir/set"
    i=$((i + 1))
done
# Without a list, a record that differs from all others: an id that is not its key, an id2.
for place in 16 24; do
    cp "$dir/m.rec" "$dir/d.rec"; cp "$dir/m.idx" "$dir/d.idx"
    printf '\377' | dd of="$dir/d.rec" bs=1 seek=$place conv=notrunc 2>/dev/null
    status 1 verify "$dir/d.rec"
    says 'record 0 at 0: its id.*, unlike the others (1 records are so)' err
done
says 'its id2 is not 0' err
status 0 verify "$dir/m.rec"
says 'labels and contents were not checked (--decode, --list)$' out

# Lists.
mkdir -p "$dir/photos/dog" "$dir/photos/cat" "$dir/photos/empty"
for file in dog/2.jpg dog/10.JPG cat/x.png; do : >"$dir/photos/$file"; done
status 0 list "$dir/photos"
printf '0\t0.000000\tcat/x.png\n1\t1.000000\tdog/10.JPG\n2\t1.000000\tdog/2.jpg\n' | cmp -s - "$dir/out" || fault "list: $(cat "$dir/out")"
status 0 list "$dir/photos/" "$dir/p.lst" --shuffle 3
cut -f2- "$dir/p.lst" | sort | cmp -s - "$dir/out" && fault "list wrote to stdout, too"
[ "$(cut -f3 "$dir/p.lst" | sort | tr '\n' ' ')" = "cat/x.png dog/10.JPG dog/2.jpg " ] || fault "shuffled list: $(cat "$dir/p.lst")"
ln -s nowhere "$dir/photos/cat/y.jpg" # has its line: what becomes of it, pack is told
status 0 list "$dir/photos"
says '^1	0.000000	cat/y.jpg$' out
status 0 list "$dir/photos" --no-labels --ext png
printf '0\t0.000000\tcat/x.png\n' | cmp -s - "$dir/out" || fault "list --ext: $(cat "$dir/out")"
# The list is first written to a temporary file: an error leaves the old one alone; permissions are
# kept, links followed.
cp "$dir/p.lst" "$dir/kept"; chmod 640 "$dir/p.lst"; ln -sf p.lst "$dir/link.lst"
mkdir -p "$dir/odd/a"; : >"$dir/odd/a/1.jpg"; : >"$dir/odd/a/$(printf '2\t.jpg')"
status 1 list "$dir/odd" "$dir/p.lst"
says 'a list cannot hold this name' err
cmp -s "$dir/kept" "$dir/p.lst" || fault "an error has changed the list that was there"
(trap '' XFSZ; ulimit -f 1; i=0; while [ $i -lt 200 ]; do : >"$dir/odd/a/a file with a long name $i.jpg"; i=$((i + 1)); done
    rm "$dir/odd/a/$(printf '2\t.jpg')"; "$ITERPACK" list "$dir/odd" "$dir/p.lst" 2>"$dir/err"); got=$?
[ $got = 1 ] || fault "a list that does not fit: status $got"
cmp -s "$dir/kept" "$dir/p.lst" || fault "a list that does not fit has changed the one that was there"
status 0 list "$dir/odd" "$dir/link.lst"
[ -L "$dir/link.lst" ] && [ "$(wc -l <"$dir/p.lst")" = 201 ] || fault "not written through a link"
[ "$(stat -c %a "$dir/p.lst")" = 640 ] || fault "the list's permissions are now $(stat -c %a "$dir/p.lst")"
[ -z "$(ls "$dir" | grep 'lst.part')" ] || fault "parts of a list are left: $(ls "$dir")"
# If images lie beside the classes, a message says that they are left out.
: >"$dir/photos/top.jpg"; : >"$dir/photos/also.PNG"; : >"$dir/photos/notes.txt"
"$ITERPACK" list "$dir/photos" >"$dir/out" 2>"$dir/err" || fault "list with images beside classes"
says 'photos: 2 images lie beside the class folders and are left out, the first is also.PNG' err
[ "$(wc -l <"$dir/out")" = 4 ] || fault "list with images beside classes: $(cat "$dir/out")"
status 0 list "$dir/photos" --no-labels
rm "$dir/photos/top.jpg" "$dir/photos/also.PNG"

# One process at a time: the message names the process that has the lock, and nothing is changed.
if command -v python3 >/dev/null; then
    cat >"$dir/hold.py" <<'END'
import fcntl, sys, time
file = open(sys.argv[1] + ".part.lock", "w+")
fcntl.lockf(file, fcntl.LOCK_EX)
file.write("process 77 on elsewhere\n"); file.flush()
print("held", flush=True)
time.sleep(60)
END
    rm -f "$dir"/h.*
    for out in h.rec h.lst; do
        echo old >"$dir/h.lst"; : >"$dir/held"
        python3 "$dir/hold.py" "$dir/$out" >"$dir/held" & holder=$!
        while [ ! -s "$dir/held" ]; do sleep 0.01; done
        case $out in
        *.rec) status 1 pack "$golden/one.lst" "$dir/h.rec" --root "$dir/set"; [ ! -e "$dir/h.rec.part" ] || fault "a part under another's lock" ;;
        *.lst) status 1 list "$dir/photos" "$dir/h.lst"; [ "$(cat "$dir/h.lst")" = old ] || fault "a list under another's lock" ;;
        esac
        says "$out: is being written by another iterpack, process 77 on elsewhere\$" err
        kill -9 $holder; wait $holder 2>/dev/null # its lock ends with it
        case $out in
        *.rec) status 0 pack "$golden/one.lst" "$dir/h.rec" --root "$dir/set"; cmp -s "$golden/one.rec" "$dir/h.rec" || fault "behind a lock: not the same .rec" ;;
        *.lst) status 0 list "$dir/photos" "$dir/h.lst" ;;
        esac
        [ ! -e "$dir/$out.part.lock" ] || fault "a lock is left"
    done
fi
for text in '' '0\ta\n' '0\n' 'x\t1\ta\n' '0\t1x\ta\n' '0\t1\ta\n1\t1\t2\tb\n' '0\t1\ta\n1\tb\n' '-1\t1\ta\n' '0\t1\t\n'; do
    # shellcheck disable=SC2059 # the text is a format
    printf -- "$text" >"$dir/bad.lst"
    status 1 pack "$dir/bad.lst" "$dir/bad.rec"
    says 'bad.lst' err
done

# Re-encoded images: Pillow's results, to the bit (tests/golden/make_packed.py), with any number of
# threads.
images=$(pwd)/tests/golden/images; packed=$(pwd)/tests/golden/packed
i=0; : >"$dir/i.lst"
for file in rgb420.jpg exif6.jpg gray.jpg progressive.jpg rgb8.png exif8.jpg; do printf '%d\t%d\t%s\n' $i $i $file >>"$dir/i.lst"; i=$((i + 1)); done
contents() { # FILE BYTES: of each record, 32 bytes of heads between them
    n=0; size=$(wc -c <"$1")
    while [ $n -lt "$size" ]; do tail -c +$((n + 33)) "$1" | head -c "$2"; n=$((n + 32 + $2)); done
}
"$ITERPACK" pack "$dir/i.lst" "$dir/i.rec" --root "$images" --resize 16 --center-crop --encoding png >/dev/null 2>"$dir/err"
if grep -qE '(without|no) lib(jpeg|png)' "$dir/err"; then
    echo "skipped: images made anew: $(cat "$dir/err")"
else
    for threads in 1 2 4; do
        rm -f "$dir"/c.* "$dir"/j.*
        status 0 pack "$dir/i.lst" "$dir/c.rec" --root "$images" --resize 16 --center-crop --encoding raw --threads $threads
        contents "$dir/c.rec" 768 | cmp -s - "$packed/crop16.bin" || fault "--center-crop --resize 16, $threads threads: not what Pillow makes"
        status 0 pack "$dir/i.lst" "$dir/j.rec" --root "$images" --quality 80 --threads $threads
        [ $threads = 1 ] && cp "$dir/j.rec" "$dir/j1"
        cmp -s "$dir/j1" "$dir/j.rec" || fault "--quality 80, $threads threads: other bytes than with one"
    done
    status 0 verify "$dir/j.rec" --list "$dir/i.lst" --root "$images" --quality 80
    status 1 verify "$dir/j.rec" --list "$dir/i.lst" --root "$images" --quality 70
    says 'has other bytes than the file' err
    status 0 info "$dir/j.rec"
    says ' 6 JPEG$' out
    status 0 info "$dir/i.rec"
    says ' 6 PNG$' out
    rm -f "$dir"/c.*
    status 0 pack "$dir/i.lst" "$dir/c.rec" --root "$images" --resize 16 --center-crop --encoding raw --gray
    contents "$dir/c.rec" 256 | cmp -s - "$packed/gray16.bin" || fault "--gray: not what Pillow makes"
    # Other codes for the same coefficients. The pixels stay: tests/unit has them from Pillow, and crops have the same hash.
    cp "$dir/i.lst" "$dir/e.lst"
    for file in rgb444.jpg cmyk.jpg restart_row.jpg rgb422.jpg rgb440.jpg rgb411.jpg; do printf '%d\t%d\t%s\n' $i $i $file >>"$dir/e.lst"; i=$((i + 1)); done
    status 0 pack "$dir/e.lst" "$dir/as.rec" --root "$images"
    for more in "" "--progressive" "--threads 1" "--scales 4,8" "--scales 8" "--scales 4"; do
        rm -f "$dir"/e.rec "$dir"/e.idx
        # shellcheck disable=SC2086
        status 0 pack "$dir/e.lst" "$dir/e.rec" --root "$images" --seekable $more
        says '^12 records written$' out
        case $more in --threads*) same= ;; *) same=$more ;; esac
        # shellcheck disable=SC2086
        status 0 verify "$dir/e.rec" --list "$dir/e.lst" --root "$images" --seekable $same --decode
        status 0 info "$dir/e.rec"
        case $more in --progressive) says 'seekable 11 of the JPEGs' out ;; *) says 'seekable 10 of the JPEGs' out ;; esac
        case $more in --scales*) says 'scales   10 of the JPEGs' out ;; *) ! grep -q 'scales' "$dir/out" || fault "$more: copies" ;; esac
        if [ -n "$ITERBENCH" ]; then
            for chain in 'random-resized-crop:size=24,scale=0.05;0.5' 'center-crop:20' 'resize:16,jpeg-scale=fast' 'resize:10,jpeg-scale=fast' \
                'resize:5,jpeg-scale=fast' 'random-resized-crop:size=4,jpeg-scale=auto' 'random-resized-crop:size=3,jpeg-scale=fast'; do
                for rec in as e; do
                    "$ITERBENCH" --data "recordio:$dir/$rec.rec?orient=yes" --loader dataloader --batch 4 --chain "$chain" --epochs 2 --hash 2>&1 | grep '^hash' >"$dir/hash.$rec"
                done
                [ -s "$dir/hash.as" ] && cmp -s "$dir/hash.as" "$dir/hash.e" || fault "--seekable $more, $chain: other pixels: $(cat "$dir"/hash.*)"
            done
        fi
    done
    head -c 900 "$images/rgb420.jpg" >"$dir/set/cut.jpg" # damaged: stays as it is
    printf '0\t0\tcut.jpg\n' >"$dir/s.lst"
    for more in "" "--seekable"; do
        rm -f "$dir"/s.rec "$dir"/s.idx
        # shellcheck disable=SC2086
        status 0 pack "$dir/s.lst" "$dir/s.rec" --root "$dir/set" $more
        contents "$dir/s.rec" 900 | cmp -s - "$dir/set/cut.jpg" || fault "pack $more: a damaged JPEG was changed"
    done
    status 0 pack "$dir/e.lst" "$dir/q.rec" --root "$images" --resize 24 --seekable
    status 0 info "$dir/q.rec"
    says 'seekable 12 of the JPEGs' out
    status 2 pack "$dir/e.lst" "$dir/q.rec" --root "$images" --encoding png --seekable
    status 2 pack "$dir/e.lst" "$dir/q.rec" --root "$images" --progressive
    status 2 pack "$dir/e.lst" "$dir/q.rec" --root "$images" --scales 8
    says '--scales is for --seekable' err
    status 2 pack "$dir/e.lst" "$dir/q.rec" --root "$images" --seekable --scales 2
    says '--scales 2: 4, 8 or 4,8 is needed' err
    # A damaged copy is met where it is decoded, and by verify.
    rm -f "$dir"/e.rec "$dir"/e.idx
    printf '0\t0\trgb420.jpg\n' >"$dir/s.lst"
    status 0 pack "$dir/s.lst" "$dir/e.rec" --root "$images" --seekable --scales 8
    at=$(LC_ALL=C grep -aboP '\xff\xd8\xff' "$dir/e.rec" | tail -n 1 | cut -d : -f 1)
    printf 'x' | dd of="$dir/e.rec" bs=1 seek="$at" conv=notrunc 2>/dev/null
    status 1 verify "$dir/e.rec" --decode
    says 'in its copy for smaller sizes: Not a JPEG file' err
    # Images whose sides differ, read back by the library: lossless, and in a JPEG nearly so.
    printf '0\t0\trgb420.jpg\n' >"$dir/s.lst"
    if [ -n "$ITERBENCH" ]; then
        for as in "--encoding png" "--quality 100" "--quality 20"; do
            rm -rf "$dir"/s.rec "$dir"/s.idx "$dir/dump"
            # shellcheck disable=SC2086
            status 0 pack "$dir/s.lst" "$dir/s.rec" --root "$images" --resize 20 $as
            "$ITERBENCH" --data "recordio:$dir/s.rec" --batch 1 --chain center-crop:height=20,width=23 --dump "$dir/dump" --batches 1 >/dev/null ||
                fault "resized to 20, $as: is not 20 x 23"
            tail -c 1380 "$dir/dump/data.npy" >"$dir/pixels"
            cmp -l "$dir/pixels" "$packed/short20.bin" >"$dir/other"
            mean=$(awk 'function value(o) { return int(o / 100) * 64 + int(o % 100 / 10) * 8 + o % 10 }
                        { d = value($2) - value($3); sum += d < 0 ? -d : d } END { printf "%d", 100 * sum / 1380 }' "$dir/other")
            case $as in
            *png) [ "$mean" = 0 ] || fault "--resize 20: not what Pillow makes" ;;
            *100) [ "$mean" -lt 400 ] || fault "--resize 20 --quality 100: pixels differ by $mean / 100 on average"; best=$mean ;;
            *20) [ "$mean" -gt "$best" ] && [ "$mean" -lt 3000 ] || fault "--quality 20: pixels differ by $mean / 100, with 100 by $best" ;;
            esac
        done
    fi

    # Decoding finds faults that a record's frame does not show, and needs no temporary folder.
    TMPDIR=/nowhere status 0 pack "$dir/s.lst" "$dir/no_tmp.rec" --root "$images" --resize 20
    status 0 pack "$dir/i.lst" "$dir/w.rec" --root "$images"
    status 0 verify "$dir/w.rec" --decode
    says '6 records, as in its index, which all decode; labels were not compared (--list)$' out
    printf '\377\331' | dd of="$dir/w.rec" bs=1 seek=700 conv=notrunc 2>/dev/null # an end of image among the first one's data
    status 0 verify "$dir/w.rec"
    status 1 verify "$dir/w.rec" --decode
    says 'record 0 at 0: does not decode: ' err
    status 1 verify "$dir/m.rec" --decode
    says 'record 1 at .*: does not decode: not a JPEG, PNG or WebP' err

    # Damaged images, and options that are refused.
    printf '0\t0\trgb420.jpg\n1\t1\t../recordio/one.lst\n2\t2\tcut.jpg\n' >"$dir/k.lst"
    mkdir "$dir/k" "$dir/recordio" && cp "$images/rgb420.jpg" "$dir/k" && cp "$golden/one.lst" "$dir/recordio"
    head -c 700 "$images/rgb420.jpg" >"$dir/k/cut.jpg"
    status 1 pack "$dir/k.lst" "$dir/k.rec" --root "$dir/k" --resize 16
    says 'k.lst: item 2: ../recordio/one.lst: not a JPEG, PNG or WebP' err
    rm -f "$dir"/k.rec* "$dir"/k.idx*
    "$ITERPACK" pack "$dir/k.lst" "$dir/k.rec" --root "$dir/k" --resize 16 --skip >"$dir/out" 2>"$dir/err" || fault "--skip of damaged images"
    says 'item 3: cut.jpg: .*the data end early, after 700 bytes' err
    says '^1 records written, 2 files skipped$' out
    for arguments in "--encoding gif" "--encoding raw" "--encoding raw --resize 3" "--encoding png --quality 3" "--quality 0" "--quality 101" "--resize 0"; do
        # shellcheck disable=SC2086
        status 2 pack "$dir/i.lst" "$dir/x.rec" --root "$images" $arguments
    done
    status 2 verify "$dir/j.rec" --quality 80

    # Interrupted by ^C: the same command resumes, another one does not; the bytes are those of an
    # uninterrupted run.
    i=0; while [ $i -lt 400 ]; do printf '%d\t%d\trgb420.jpg\n' $i $i; i=$((i + 1)); done >"$dir/n.lst"
    status 0 pack "$dir/n.lst" "$dir/whole.rec" --root "$images" --resize 400
    rm -f "$dir"/n.rec* "$dir"/n.idx*
    "$ITERPACK" pack "$dir/n.lst" "$dir/n.rec" --root "$images" --resize 400 --threads 1 >"$dir/out" 2>"$dir/err" &
    pid=$!
    while kill -0 $pid 2>/dev/null && [ ! -s "$dir/n.rec.part" ]; do sleep 0.02; done
    # A second run, of the same command or another, does not touch the parts of the first one while
    # that lives.
    if kill -STOP $pid 2>/dev/null && [ -s "$dir/n.rec.part" ]; then
        before=$(stat -c %s "$dir/n.rec.part")
        status 1 pack "$dir/n.lst" "$dir/n.rec" --root "$images" --resize 400
        says "n.rec: is being written by another iterpack, process $pid on " err
        status 1 pack "$dir/n.lst" "$dir/n.rec" --root "$images" --resize 401 --restart --shards 3
        says "process $pid on " err
        [ "$(stat -c %s "$dir/n.rec.part")" = "$before" ] || fault "a second run has changed the part"
    fi
    kill -CONT $pid 2>/dev/null
    kill -INT $pid 2>/dev/null; wait $pid; got=$?
    if [ $got = 0 ]; then
        echo "skipped: it was done before it could be interrupted"
    else
        [ $got = 130 ] || fault "interrupted: status $got: $(cat "$dir/err")"
        says 'interrupted; the same command continues' err
        [ ! -e "$dir/n.rec" ] || fault "interrupted, and the .rec has its name"
        status 1 pack "$dir/n.lst" "$dir/n.rec" --root "$images" --resize 401
        says 'with other options' err
        status 0 pack "$dir/n.lst" "$dir/n.rec" --root "$images" --resize 400 --threads 4
        says ' records written, [0-9]* were there$' out
    fi
    # Parts are synced by time: with every record if it is 0 seconds, so that a killed run resumes
    # after the last one.
    rm -f "$dir"/t.*
    "$ITERPACK" pack "$dir/n.lst" "$dir/t.rec" --root "$images" --resize 400 --threads 1 --sync 0 >"$dir/out" 2>"$dir/err" &
    pid=$!
    while kill -0 $pid 2>/dev/null && [ "$(cat "$dir/t.idx.part" 2>/dev/null | wc -l)" -lt 5 ]; do sleep 0.01; done
    kill -9 $pid 2>/dev/null; wait $pid 2>/dev/null; got=$?
    if [ $got = 0 ]; then
        echo "skipped: it was done before it could be killed"
    else
        status 0 pack "$dir/n.lst" "$dir/t.rec" --root "$images" --resize 400
        there=$(sed -n 's/.* records written, \([0-9]*\) were there$/\1/p' "$dir/out")
        [ "${there:-0}" -ge 5 ] || fault "--sync 0, killed: $(cat "$dir/out")"
    fi
    cmp -s "$dir/whole.rec" "$dir/t.rec" || fault "killed and resumed: not the same .rec"
    cmp -s "$dir/whole.rec" "$dir/n.rec" || fault "interrupted and taken up: not the same .rec"
    cmp -s "$dir/whole.idx" "$dir/n.idx" || fault "interrupted and taken up: not the same .idx"
fi
status 0 --help
status 0 --version
for arguments in "" "wrong" "pack" "pack a" "pack a b" "pack a b.rec c" "pack a b.rec --threads" "pack a b.rec --threads 0" "pack a b.rec --threads x" \
    "verify" "info" "list" "list a b c" "info --wrong a.rec"; do
    # shellcheck disable=SC2086
    status 2 $arguments
done
status 2 pack a b.rec --threads 2 --skip --threads 2
says '^iterpack: --threads is given twice$' err
status 2 list a --no-labels --no-labels
says '^iterpack: --no-labels is given twice$' err
status 1 info "$dir/none.rec"
status 1 pack "$dir/none.lst" "$dir/x.rec"
exit $bad
