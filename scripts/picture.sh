#!/bin/sh
# Makes docs/verdict.png again: runs iterbench over photos with an emulated accelerator, and takes a picture of the first cards of its report.
# Needs the release build, photos (find_data.sh) and a Chromium (Debian: chromium). The numbers are those of the machine that runs it.
# Usage: picture.sh [REPORT.html]    with REPORT.html: a picture of this report, without a run
set -eu
cd "$(dirname "$0")/.."
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || { echo "picture.sh: no Chromium here" >&2; exit 1; }
cards=2 width=1000
folder=build/picture
mkdir -p $folder
report=${1:-}
if [ -z "$report" ]; then
    photos=$(scripts/find_data.sh clothing/test photos) || { echo "picture.sh: no photos in ITER_DATA or ./data" >&2; exit 1; }
    ln -sfn "$(cd "$photos" && pwd)" $folder/photos # the report shows the path
    report=$folder/report.html
    (cd $folder && ../release/bench/iterbench --loader dataloader --data folder:photos --batch 32 --compute-ms 20 --prove --html report.html \
        --chain "random-resized-crop:size=224 | random-flip | normalize | to:f32,nchw")
fi

# shoot OPTIONS...: the browser, quiet. It keeps its profile under build/.
shoot() { "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$PWD/$folder/profile" "$@" 2>$folder/browser.log; }
# A script at the end of the copy measures where the last wanted card ends. That is the height of the picture.
cp "$report" $folder/copy.html
cat >>$folder/copy.html <<END
<script>
const cards = document.querySelectorAll('#report section');
document.title = 'height=' + Math.ceil(cards[$cards - 1].getBoundingClientRect().bottom + 12);
</script>
END
height=$(shoot --window-size=$width,2000 --dump-dom "file://$PWD/$folder/copy.html" | sed -n 's/.*<title>height=\([0-9]*\).*/\1/p')
[ -n "$height" ] || { echo "picture.sh: the report has fewer than $cards cards; $folder/browser.log" >&2; exit 1; }
shoot --window-size=$width,"$height" --screenshot="$PWD/docs/verdict.png" "file://$PWD/$folder/copy.html"
echo "docs/verdict.png: $width x $height, $(wc -c <docs/verdict.png) bytes"
