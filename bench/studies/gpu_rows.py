#!/usr/bin/env python3
"""Keeps the rows of gpu.sh: one JSON line each in rows.jsonl, and all of them as a table.

    gpu_rows.py head ROWS.jsonl KEY=VALUE...
    gpu_rows.py add ROWS.jsonl ROW STATUS SECONDS RESULT.json LOG COMMAND...
    gpu_rows.py table ROWS.jsonl
"""
import json, re, sys


DRY = False  # if set, no figures are shown: they come from fakes


def append(path, row):
    with open(path, 'a', encoding='utf-8') as file:
        file.write(json.dumps(row) + '\n')


def read(path):
    with open(path, encoding='utf-8') as file:
        lines = [json.loads(line) for line in file]
    return lines[0], {line['row']: line for line in lines[1:]}


def add(path, name, status, seconds, result, log, command):
    row = {'row': name, 'status': int(status), 'wall_s': round(float(seconds), 1), 'command': ' '.join(command)}
    try:
        with open(result, encoding='utf-8') as file:
            row['result'] = json.load(file)
    except (OSError, ValueError):
        row['result'] = None
    with open(log, encoding='utf-8', errors='replace') as file:
        row['text'] = file.read()[-4000:]
    append(path, row)


# ---- The table: the target and the result of each row

def get(rows, name, *keys):
    value = rows.get(name, {}).get('result')
    for key in keys:
        value = value[key] if isinstance(value, list) and len(value) > key else value.get(key) if isinstance(value, dict) else None
    return value


def shown(value, form):
    return form % value if isinstance(value, (int, float)) else '-'


def line(out, what, asked, value, good):
    if DRY:
        value, good = 'something' if any(c.isdigit() for c in value) else value, None
    out.append('| %s | %s | %s | %s |' % (what, asked, value, '' if good is None else 'yes' if good else '**no**'))


def quotient(a, b):
    return a / b if isinstance(a, (int, float)) and isinstance(b, (int, float)) and b > 0 else None


def copies(rows, out):
    for name, what in (('copies-64', 'CIFAR, 64 in f32'), ('copies-large', '256 x 3x224x224 in u8')):
        share, plain = get(rows, name, 'limits', 'gpu_slots_by_copy'), get(rows, name, 'limits', 'gpu_copy_bytes_per_s')
        loader = get(rows, name, 'arms', 0, 'device', 'copied_bytes_per_s')
        text = '%s of %s GB/s; a whole loader %s GB/s' % (shown(share, '%.3f'), shown(plain and plain / 1e9, '%.2f'), shown(loader and loader / 1e9, '%.2f'))
        line(out, 'copies from slots / plain pinned copies, ' + what, '>= 0.95', text, None if share is None else share >= .95)


def feeding(rows, out):
    for name, what in (('cnn-f32', 'f32'), ('cnn-tf32', 'TF32'), ('cnn-tf32-host', 'TF32, rows finished on the host')):
        if name not in rows:
            continue
        both = get(rows, name, 'device', 'both_by_resident') or {}
        rates = {a['name']: a['samples_per_s']['median'] for a in get(rows, name, 'arms') or []}
        text = '%s [%s, %s]; %s / %s images/s, utilisation %s, cost of feeding %s %%' % (
            *(shown(both.get(k), '%.3f') for k in ('median', 'low', 'high')), shown(rates.get('both'), '%.0f'), shown(rates.get('resident'), '%.0f'),
            shown(get(rows, name, 'utilisation'), '%.3f'), shown((get(rows, name, 'cost_of_feeding', 'median') or 0) * 100, '%.1f'))
        line(out, 'CNN with the loader / on resident batches, ' + what, '>= 0.99', text, None if 'median' not in both or both['median'] is None else both['median'] >= .99)


def sets(rows, out):
    for network, precision in (('cnn', 'f32'), ('cnn', 'tf32'), ('gru', 'f32')):
        loader, resident = (get(rows, '%s-%s-%s' % (network, precision, mode), 'seconds') for mode in ('loader', 'resident'))
        ratio = quotient(resident, loader)
        if ratio is not None:
            line(out, '%s whole training, %s, with the loader / over a resident set' % (network.upper(), precision), '>= 0.99' if network == 'cnn' else '',
                 '%.3f' % ratio, ratio >= .99 if network == 'cnn' else None)


def races(rows, out, network, epochs, precisions):
    for precision in precisions:
        def ours(mode):
            return get(rows, '%s-%s-%s' % (network, precision, mode), 'seconds')
        def peer(mode):
            return ours('torch-' + mode)
        for mine, theirs, what, least in (('loader', 'eager-loader', 'torch eager with its own DataLoader', 1.5),
                                          ('loader', 'eager-batched', 'torch eager, DataLoader by whole batches', None),
                                          ('resident', 'compiled-resident', 'torch compiled on resident data', 1.1),
                                          ('loader', 'compiled-resident', 'torch compiled on resident data, ours with the loader', None)):
            if '%s-%s-torch-%s' % (network, precision, theirs) not in rows:
                continue
            ratio = quotient(peer(theirs), ours(mine))
            scaled = get(rows, '%s-%s-torch-%s' % (network, precision, theirs), 'scaled')
            text = '%s x: %s s beside %s s%s' % (shown(ratio, '%.2f'), shown(ours(mine), '%.2f'), shown(peer(theirs), '%.2f'),
                                                 ' (from its median epoch)' if scaled else '')
            line(out, '%s %d epochs, %s, beside %s' % (network.upper(), epochs, precision, what), '>= %.1f x' % least if least else '', text,
                 None if least is None or ratio is None else ratio >= least)
        for mode, who in (('loader', 'ours'), ('torch-eager-loader', 'torch')):
            accuracy = get(rows, '%s-%s-%s' % (network, precision, mode), 'test_accuracy')
            real = get(rows, 'data', network)
            if accuracy is not None and real:
                band = (.75, .79) if network == 'cnn' else (.83, .87)
                line(out, '%s accuracy, %s, %s' % (network.upper(), precision, who), '%.2f to %.2f' % band, '%.4f' % accuracy,
                     band[0] <= accuracy <= band[1] if who == 'ours' else None)


def kernels(rows, out):
    text = rows.get('pack', {}).get('text', '')
    empty = re.search(r"one thread's work: ([0-9.]+) us", text)
    for what in ('chw to f16 hwc',):
        found = re.search(re.escape(what) + r' .*share ([0-9.]+)\s+batch of 64 ([0-9.]+) us', text)
        line(out, 'gather, crop, flip, normalise to f16 NHWC: 50,000 images / a copy on the device', '>= 0.60', found.group(1) if found else '-',
             float(found.group(1)) >= .6 if found else None)
        line(out, 'the same at batch 64, beside an empty launch', '', '%s us, empty %s us' % (found.group(2) if found else '-', empty.group(1) if empty else '-'), None)


def table(path):
    global DRY
    head, rows = read(path)
    out, DRY = [], bool(head.get('dry'))
    if DRY:
        out += ['**Dry run: against fakes, nothing here is a number.**', '']
    out += ['%s: %s' % (key, value) for key, value in head.items() if key not in ('row', 'dry')]
    out += ['', '| what | asked | came out | reached |', '| --- | --- | --- | --- |']
    for name in ('test-kernels', 'test-layers', 'test-steps', 'test-trainer'):
        if name in rows:
            word = {0: 'passed', 77: 'skipped', 124: 'out of time'}.get(rows[name]['status'], 'failed, status %d' % rows[name]['status'])
            line(out, 'GPU tests, ' + name[5:], 'pass', word, rows[name]['status'] == 0)
    for part, arguments in ((copies, ()), (feeding, ()), (sets, ()), (races, ('cnn', 10, ('f32', 'tf32', 'f16', 'bf16'))),
                            (races, ('gru', 3, ('f32', 'tf32'))), (kernels, ())):
        try:
            part(rows, out, *arguments)
        except (TypeError, ValueError, KeyError, AttributeError) as error:  # an unexpected result must not stop the other rows
            out.append('| %s | | not understood: %r | |' % (part.__name__, error))
    out += ['', 'Rows:', '']
    out += ['- %s: status %d, %.1f s: `%s`' % (r['row'], r['status'], r['wall_s'], r['command']) for r in rows.values() if r['command']]
    print('\n'.join(out))


if sys.argv[1] == 'head':
    append(sys.argv[2], dict([('row', 'head')] + [a.split('=', 1) for a in sys.argv[3:]]))
elif sys.argv[1] == 'add':
    add(*sys.argv[2:8], sys.argv[8:])
else:
    table(sys.argv[2])
