#!/usr/bin/env bash
# Tests of the CUDA engine through SQL that the regression suite does not cover: modes, panels,
# cancellation, parallel sessions, terminated sessions. "make gpucheck" runs it with a private
# server.
set -uo pipefail
export PGOPTIONS="-c fasted.engine=cuda -c client_min_messages=warning"
tests=0
failed=0

ok() { # ok CONDITION_STATUS NAME [WHAT_WAS_SEEN]
	tests=$((tests + 1))
	if (($1 == 0)); then
		echo "ok $tests - $2"
	else
		failed=$((failed + 1))
		echo "not ok $tests - $2"
		printf '%s\n' "${3:-}" | sed 's/^/# /'
	fi
}
is() { # is GOT EXPECTED NAME
	local status=0
	[[ $1 == "$2" ]] || status=1
	ok "$status" "$3" "got $1, expected $2"
}
query() { psql -XqAt -v ON_ERROR_STOP=1 -c "$1" 2>&1; }

# Number of pairs, and sums of hashes of the pairs and of the distances.
digest="SELECT count(*), sum(hashint8(id_a * 1000003 + id_b)::bigint), sum(hashfloat8(dist)::bigint)
	FROM fasted_self_join('gpu_items', 'v', 2.05)"

gpu_sessions() { nvidia-smi --query-compute-apps=pid --format=csv,noheader 2>/dev/null | grep -c . || true; }

query 'CREATE EXTENSION IF NOT EXISTS fasted' >/dev/null
query 'DROP TABLE IF EXISTS gpu_items' >/dev/null
query "SELECT setseed(0.25); CREATE TABLE gpu_items AS SELECT i AS id,
	ARRAY(SELECT (random() + 0 * i)::real FROM generate_series(1, 50)) AS v FROM generate_series(1, 40000) AS i;
	ALTER TABLE gpu_items ADD PRIMARY KEY (id)" >/dev/null

before=$(gpu_sessions)
exact=$(query "SET fasted.engine = cpu; $digest")
ok "$([[ $exact =~ ^[1-9][0-9]+\|-?[0-9]+\|-?[0-9]+$ ]]; echo $?)" 'the CPU engine finds pairs' "$exact"
is "$(query "$digest")" "$exact" "GPU and CPU: same pairs and distances ($exact)"
is "$(query "SET fasted.filter = fp64; $digest")" "$exact" 'FP64 filter: same pairs'
is "$(query "SET fasted.filter = fp16; $digest")" "$exact" 'FP16 filter: same pairs'
is "$(query "SET fasted.filter = int8; $digest")" "$exact" 'INT8 filter: same pairs'
is "$(query "SET fasted.prune = force; $digest")" "$exact" 'projected rows: same pairs'
said=$(query "SET fasted.prune = force; EXPLAIN (ANALYZE) $digest")
ok "$(grep -q 'Filter Dimensions: 64' <<<"$said"; echo $?)" 'projected rows: shown by EXPLAIN' "$said"
said=$(query "EXPLAIN (ANALYZE) $digest")
ok "$(grep -q 'Distance Filter: \(int8\|fp16\)' <<<"$said" && grep -q 'Sampled Candidates: [1-9]' <<<"$said"
	echo $?)" 'auto: a sample chose the filter' "$said"

# Nearest neighbors.
nearest="SELECT count(*), sum(hashint8(id_a * 1000003 + id_b)::bigint), sum(hashfloat8(dist)::bigint)
	FROM fasted_knn_join('gpu_items', 'v', 'gpu_items', 'v', 7)"
near=$(query "SET fasted.engine = cpu; $nearest")
ok "$([[ $near =~ ^280000\| ]]; echo $?)" 'the CPU engine finds neighbors' "$near"
for filter in auto fp16 int8 fp64; do
	is "$(query "SET fasted.filter = $filter; $nearest")" "$near" "GPU and CPU: same neighbors, $filter"
done
is "$(query "SET fasted.gpu_memory_limit = '16MB'; $nearest")" "$near" 'neighbors with panels: same'

# Doubles: many rows are equal as real.
query "DROP TABLE IF EXISTS gpu_doubles; CREATE TABLE gpu_doubles AS SELECT id,
	ARRAY(SELECT x::float8 + 1e-10 * ((id + k) % 7) FROM unnest(v) WITH ORDINALITY AS u (x, k)) AS v
	FROM (SELECT * FROM gpu_items UNION ALL SELECT id + 100000, v FROM gpu_items WHERE id <= 2000) AS i;
	ALTER TABLE gpu_doubles ADD PRIMARY KEY (id)" >/dev/null
for metric in l2 cosine; do
	eps=$([[ $metric == l2 ]] && echo 2.05 || echo 0.12)
	doubles="SELECT count(*), sum(hashint8(id_a * 1000003 + id_b)::bigint), sum(hashfloat8(dist)::bigint)
		FROM fasted_self_join('gpu_doubles', 'v', $eps, metric => '$metric')"
	wanted=$(query "SET fasted.engine = cpu; $doubles")
	ok "$([[ $wanted =~ ^[1-9][0-9]+\| ]]; echo $?)" "doubles, $metric: the CPU engine finds pairs" "$wanted"
	for setting in 'fasted.filter = auto' 'fasted.filter = fp16' 'fasted.filter = int8' 'fasted.filter = fp64' \
		'fasted.prune = force' "fasted.gpu_memory_limit = '16MB'"; do
		is "$(query "SET $setting; $doubles")" "$wanted" "doubles, $metric: same pairs, $setting"
	done
	near_doubles="SELECT count(*), sum(hashint8(id_a * 1000003 + id_b)::bigint), sum(hashfloat8(dist)::bigint)
		FROM fasted_knn_join('gpu_doubles', 'v', 'gpu_doubles', 'v', 5, metric => '$metric')"
	is "$(query "$near_doubles")" "$(query "SET fasted.engine = cpu; $near_doubles")" "doubles, $metric: same neighbors"
done
said=$(query "SELECT count(*), max(dist) < 1e-8 FROM fasted_self_join('gpu_doubles', 'v', 1e-8)")
is "$said" '2000|t' 'doubles: pairs of rows that are equal as real'
kept="SELECT count(*), sum(kept) FROM fasted_keep_one('gpu_doubles', 'v', 1.8)"
is "$(query "$kept")" "$(query "SET fasted.engine = cpu; $kept")" 'doubles: same representatives'
kept="SELECT count(*), count(DISTINCT cluster), sum(cluster) FROM fasted_cluster('gpu_doubles', 'v', 1.8, 3)"
is "$(query "$kept")" "$(query "SET fasted.engine = cpu; $kept")" 'doubles: same clusters'
query 'DROP TABLE gpu_doubles' >/dev/null

said=$(query "SET fasted.gpu_memory_limit = '8MB'; SET client_min_messages = debug1; $digest")
panels=$(sed -n 's/.*panels \([0-9]*\).*/\1/p' <<<"$said")
is "$(tail -n 1 <<<"$said")" "$exact" 'panels: same pairs'
ok "$((${panels:-0} < 2))" "panels: ${panels:-none}" "$said"
# All GPUs together, with and without panels; a single GPU is used as several.
gpus=$(nvidia-smi --list-gpus | grep -c '^GPU')
share="SET fasted.gpu_devices = '$(seq -s, 0 $((gpus - 1)))';"
if ((gpus == 1)); then
	share="SET fasted.cuda_library = '$PWD/test/cuda/build/fasted_several'; $share"
fi
for limit in '' "SET fasted.gpu_memory_limit = '8MB';"; do
	is "$(query "$share $limit $digest")" "$exact" "multi-GPU${limit:+, panels}: same pairs"
	is "$(query "$share ${limit/8MB/16MB} $nearest")" "$near" "multi-GPU${limit:+, panels}: same neighbors"
done
said=$(query "$share EXPLAIN (ANALYZE) $digest")
ok "$(($(grep -o 'GPU-[0-9a-f]*, [0-9]*%' <<<"$said" | wc -l) < 2))" 'multi-GPU: EXPLAIN shows shares' "$said"
said=$(query "SET fasted.gpu_memory_limit = '64kB'; $digest")
ok "$(grep -q 'out of GPU memory' <<<"$said"; echo $?)" 'too little GPU memory is an error' "$said"

# "auto" chooses the GPU from 2 n n d = 1e12 operations on.
used() { sed -n 's/.*engine \([a-z]*\),.*/\1/p'; }
said=$(query "SET fasted.engine = auto; SET client_min_messages = debug1;
	SELECT count(*) FROM fasted_self_join('gpu_items', 'v', 1e-9)")
is "$(used <<<"$said")" cpu 'auto: CPU for a small join'
said=$(query "SET fasted.engine = auto; SET client_min_messages = debug1;
	CREATE TEMP VIEW wide AS SELECT id, v || array_fill(0::real, ARRAY[300]) AS v FROM gpu_items;
	SELECT count(*) FROM fasted_self_join('wide', 'v', 1e-9, id_column => 'id')")
is "$(used <<<"$said")" cuda 'auto: GPU for a large join'

# Returning all 8 * 10^8 pairs would take long.  The session remains usable after a cancel.
begin=$(date +%s%N)
said=$(psql -XqAt 2>&1 <<END
$digest;
SET statement_timeout = '300ms';
SELECT sum(dist) FROM fasted_self_join('gpu_items', 'v', 'Infinity');
SET statement_timeout = 0;
$digest;
END
)
took=$((($(date +%s%N) - begin) / 1000000))
is "$(grep -c 'canceling statement due to statement timeout' <<<"$said")" 1 "cancelled during a join ($took ms in total)"
is "$(grep -cFx "$exact" <<<"$said")" 2 'the session is usable after a cancel'

# Enough rows for the GPU to read them from shared memory that workers fill, after a first join has
# initialized it; then with an invalid row.
query "CREATE TABLE gpu_wide (id int PRIMARY KEY, v real[]); ALTER TABLE gpu_wide ALTER v SET STORAGE PLAIN;
	INSERT INTO gpu_wide SELECT i, array_fill((i % 50000)::real, ARRAY[800]) FROM generate_series(1, 100000) AS i;
	ANALYZE gpu_wide" >/dev/null
wide="SELECT count(*), sum(id_b - id_a) FROM fasted_self_join('gpu_wide', 'v', 1e-9)"
said=$(query "$digest; SET client_min_messages = debug1; SET parallel_leader_participation = off; SET min_parallel_table_scan_size = '1MB'; $wide")
is "$(tail -n 1 <<<"$said")" '50000|2500000000' 'registered memory: right pairs'
ok "$(grep -q ' [1-9][0-9]* from registered memory' <<<"$said"; echo $?)" 'registered memory: EXPLAIN shows rows' "$said"
said=$(psql -XqAt 2>&1 <<END
SELECT count(*) FROM (SELECT set_config('parallel_leader_participation', 'off', false)) AS s;
CREATE TEMP VIEW wrong AS SELECT id, CASE id WHEN 99999 THEN ARRAY[1::real] ELSE v END AS v FROM gpu_wide;
SELECT count(*) FROM fasted_self_join('wrong', 'v', 1e-9, id_column => 'id');
CREATE TEMP VIEW slow AS SELECT id, v FROM gpu_wide WHERE id <> 99990 OR pg_sleep(60) IS NULL;
SET statement_timeout = '1s';
SELECT count(*) FROM fasted_self_join('slow', 'v', 1e-9, id_column => 'id');
RESET statement_timeout;
$wide;
$wide;
END
)
is "$(grep -c 'vectors have different numbers of dimensions' <<<"$said")" 1 'registered memory: invalid row'
is "$(grep -c 'canceling statement due to statement timeout' <<<"$said")" 1 'registered memory: cancelled while reading'
is "$(grep -cFx '50000|2500000000' <<<"$said")" 2 'registered memory: the session is usable' "$said"
query "CREATE TABLE gpu_wide_doubles (id int PRIMARY KEY, v float8[]); ALTER TABLE gpu_wide_doubles ALTER v SET STORAGE PLAIN;
	INSERT INTO gpu_wide_doubles SELECT id, array_fill(id % 45000 + 1e-9::float8, ARRAY[400]) FROM gpu_wide WHERE id <= 90000;
	ANALYZE gpu_wide_doubles" >/dev/null
wide=${wide//gpu_wide/gpu_wide_doubles}
said=$(query "$digest; SET client_min_messages = debug1; SET parallel_leader_participation = off; SET min_parallel_table_scan_size = '1MB'; $wide")
is "$(tail -n 1 <<<"$said")" '45000|2025000000' 'doubles, registered memory: right pairs'
ok "$(grep -q ' [1-9][0-9]* from registered memory' <<<"$said"; echo $?)" 'doubles, registered memory: rows counted' "$said"
query 'DROP TABLE gpu_wide, gpu_wide_doubles' >/dev/null

# Several sessions use the GPU.
results=$(mktemp -d)
for i in 1 2 3 4 5 6; do query "$digest" >"$results/$i" & done
wait
is "$(sort -u "$results"/*)" "$exact" 'six parallel sessions'
rm -rf "$results"

# Sessions that wait after a join release the GPU.
used_memory() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | sort -n | tail -n 1; }
waiting() { query "SELECT count(*) FROM pg_locks WHERE relation = 'gpu_gate'::regclass AND granted = $1"; }
query 'CREATE TABLE gpu_gate ()' >/dev/null
psql -XqAt -c 'BEGIN; LOCK TABLE gpu_gate; SELECT pg_sleep(600)' >/dev/null 2>&1 &
until [[ $(waiting true) == 1 ]]; do sleep 0.1; done
free_before=$(used_memory)
results=$(mktemp -d)
for i in $(seq 64); do
	psql -XqAt >"$results/$i" 2>&1 <<END &
SET fasted.gpu_idle_timeout = '2s';
$digest;
DO \$\$ BEGIN LOCK TABLE gpu_gate IN ACCESS SHARE MODE; END \$\$;
$digest;
END
done
highest=0
for _ in $(seq 300); do
	now=$(used_memory)
	((now <= highest)) || highest=$now
	[[ $(waiting false) == 64 ]] && break
	sleep 0.1
done
for _ in $(seq 100); do (($(used_memory) <= free_before + 100)) && break; sleep 0.1; done
lowest=$(used_memory)
said=$(waiting false)
ok "$((lowest > free_before + 100 || highest <= free_before + 100 || said != 64))" \
	"64 idle sessions release GPU memory: $free_before MiB before, up to $highest, then $lowest" "$said sessions wait"
query "SELECT pg_cancel_backend(pid) FROM pg_locks WHERE relation = 'gpu_gate'::regclass AND granted" >/dev/null
wait
is "$(sort "$results"/* | uniq -c | sed 's/^ *//')" "128 $exact" 'all pairs before and after that'
query 'DROP TABLE gpu_gate' >/dev/null
rm -rf "$results"

# Terminated and killed sessions leave no process on the GPU.
psql -XqAt -c "SET application_name = 'victim'; SELECT sum(dist) FROM fasted_self_join('gpu_items', 'v', 'Infinity')" >/dev/null 2>&1 &
sleep 1.5
is "$(query "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'victim' AND leader_pid IS NULL")" 1 'a session is terminated during a join'
wait
is "$(query "$digest")" "$exact" 'after that: same pairs'
psql -XqAt -c "SET application_name = 'victim'; SELECT sum(dist) FROM fasted_self_join('gpu_items', 'v', 'Infinity')" >/dev/null 2>&1 &
sleep 1.5
kill -KILL "$(query "SELECT pid FROM pg_stat_activity WHERE application_name = 'victim' AND leader_pid IS NULL")"
wait
# the server restarts all sessions, and rejects connections until then
for _ in $(seq 100); do
	again=$(query "$digest")
	[[ $again == "$exact" ]] && break
	sleep 0.1
done
is "$again" "$exact" 'after a session was killed: same pairs'
for _ in $(seq 50); do [[ $(gpu_sessions) == "$before" ]] && break; sleep 0.1; done
is "$(gpu_sessions)" "$before" 'no process remains on the GPU'

query 'DROP TABLE gpu_items' >/dev/null
echo "1..$tests"
exit "$((failed > 0))"
