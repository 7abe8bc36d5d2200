# Several GPUs in one join: all pairs are found, EXPLAIN shows each device's share, and an error
# is raised if a device fails.  The GPUs are simulated by test/t/engine/simulated_engine.c.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = simulated_engine();
my $node = new_node('devices', "fasted.cuda_library = '$library'\nwork_mem = '64MB'\n");
$node->safe_psql('postgres', <<'END');
SELECT setseed(0.5);
CREATE TABLE items AS SELECT i AS id, ARRAY(SELECT (random() + 0 * i)::real FROM generate_series(1, 24)) AS v
	FROM generate_series(1, 4000) AS i;
ALTER TABLE items ADD PRIMARY KEY (id);
ALTER TABLE items ADD priority int;
UPDATE items SET priority = id * 7919 % 1000;
CREATE TABLE others AS SELECT id + 100000 AS id, v FROM items WHERE id % 3 = 0;
END

my %queries = (
	pairs => "SELECT count(*), sum(hashint8(id_a * 1000003 + id_b)::bigint), sum(hashfloat8(dist)::bigint)
		FROM fasted_self_join('items', 'v', 1.1)",
	count => "SELECT count(*) FROM fasted_self_join('items', 'v', 1.1)",
	neighbors => "SELECT sum(neighbors), sum(neighbors * id) FROM fasted_neighbors('items', 'v', 1.1)",
	(map { ("clusters, min_samples $_->[0]" => "SELECT count(DISTINCT cluster), sum(cluster * id), count(*) FILTER (WHERE core)
		FROM fasted_cluster('items', 'v', $_->[1], $_->[0])") } ([1, 0.85], [2, 0.9], [3, 0.95], [10, 1.1])),
	(map { ("kept by $_" => "SELECT sum(kept * id), sum(hashfloat8(dist)::bigint), count(*) FILTER (WHERE id = kept)
		FROM fasted_keep_one('items', 'v', 1.0, $_)") } ("NULL", "'priority'", "'priority', true", "'id', true")),
	joined => "SELECT count(*), sum(a.id * b.id) FROM items a JOIN others b ON fasted_within(a.v, b.v, 1.1)",
	epsilon => "SELECT eps FROM fasted_epsilon('items', 'v', 5, seed => 1)",
);
my %right = map { $_ => $node->safe_psql('postgres', "SET fasted.engine = cpu; $queries{$_}") } keys %queries;
like($right{count}, qr/^\d{4,}$/, "there are pairs: $right{count}");

for my $list ('0', '0, 2', '0, 1, 2')
{
	for my $name (sort keys %queries)
	{
		my ($status, $out, $err) = $node->psql('postgres',
			"SET fasted.engine = cuda; SET fasted.gpu_devices = '$list'; $queries{$name}");
		is($out, $right{$name}, "$name, devices $list");
		is($err, '', 'no warning');
	}
}

my $info = "SELECT component, state, advice FROM fasted_info() WHERE component ~ '^(engine|GPU)'";
is($node->safe_psql('postgres', "SET fasted.engine = auto; $info"),
	"engine|cuda for large joins, cpu for the others (fasted.engine = auto)|\nGPU 0|model 0|\nGPU 1|model 1|\nGPU 2|model 2|",
	'fasted_info lists the devices');
is($node->safe_psql('postgres', "SET fasted.engine = cuda; SET fasted.gpu_devices = '7'; $info"),
	"engine|none (fasted.engine = cuda)|SET fasted.engine = auto\nGPU 0|model 0|\nGPU 1|model 1|\nGPU 2|model 2|\n"
	  . 'GPU|none is used: No GPU matches the list. Available GPUs: 0, 1, 2.|Check fasted.gpu_devices.',
	'fasted_info says if none of them is used');

sub device_of
{
	my ($settings) = @_;
	my $plan = $node->safe_psql('postgres', "SET fasted.engine = cuda; $settings; EXPLAIN (ANALYZE) $queries{pairs}");
	return $plan =~ /Device: (.*)/ ? $1 : "none in\n$plan";
}
like(device_of("SET fasted.gpu_devices = '0, 1, 2'"),
	qr/^.* \(0, \d+%\), .* \(1, \d+%\), .* \(2, \d+%\)$/, 'EXPLAIN names all devices with their shares');
unlike(device_of("SET fasted.gpu_devices = '1'"), qr/%/, 'no share is shown for a single device');
unlike(device_of("SELECT 1"), qr/%/, 'a small join uses one device');

# In panels, devices have different rows.
for my $name (sort keys %queries)
{
	my (undef, $panels, $said) = $node->psql('postgres', "SET fasted.engine = cuda; SET fasted.gpu_devices = '0, 1';
		SET fasted.memory_limit = '1MB'; SET client_min_messages = debug1; $queries{$name}");
	is($panels, $right{$name}, "in panels: $name");
	like($said, qr/panels ([2-9]|\d\d)/, 'there were panels') if $name eq 'pairs';
}
my $found = $node->safe_psql('postgres', "SET fasted.engine = cuda; EXPLAIN (ANALYZE) $queries{'clusters, min_samples 3'}");
my $near = $node->safe_psql('postgres', "SELECT count(*) FROM fasted_self_join('items', 'v', 0.95)");
like($found, qr/ Pairs: $near$/m, 'EXPLAIN counts omitted pairs, too');

# The second device fails, in its first call of next or a later one.  The error names the device,
# unless the join was complete before.  The session remains usable.
for my $memory ('1GB', '1MB')
{
	for my $call (1, 2, 19)
	{
		for my $name (sort keys %queries)
		{
			my ($status, $out, $err) = $node->psql('postgres', "SET fasted.engine = cuda;
				SET fasted.gpu_devices = '0, 1, 2'; SET fasted.memory_limit = '$memory';
				SET fasted.gpu_memory_limit = '@{[100 * $call - 91]}kB'; $queries{$name};
				SET fasted.gpu_devices = '0, 2'; RESET fasted.memory_limit; RESET fasted.gpu_memory_limit; $queries{count}", on_error_stop => 0);
			my @lines = split /\n/, $out;

			is(pop @lines, $right{count}, "$name, device 1 fails at call $call: the session remains usable");
			if ($err =~ /ERROR/)
			{
				like($err, qr/ERROR:  the GPU reported an error\nDETAIL:  1: /, 'the error names the device');
				is("@lines", '', 'no row is returned');
			}
			else
			{
				is("@lines", $right{$name}, 'the join was complete before that call, and its result is right');
			}
			like($err, qr/ERROR/, 'the device fails') if $call == 1 && $name eq 'pairs';
		}
	}
}

# Nearest neighbours in one table and in two.
my %nearest = (
	'nearest of one' => "SELECT count(*), sum(hashint8(id_a * 1000003 + id_b)::bigint), sum(hashfloat8(dist)::bigint)
		FROM fasted_knn_join('items', 'v', 'items', 'v', 7)",
	'nearest of two' => "SELECT count(*), sum(hashint8(id_a * 1000003 + id_b)::bigint), sum(hashfloat8(dist)::bigint)
		FROM fasted_knn_join('others', 'v', 'items', 'v', 30, a_id => 'id', max_distance => 1.2)",
);
for my $name (sort keys %nearest)
{
	my $wanted = $node->safe_psql('postgres', "SET fasted.engine = cpu; $nearest{$name}");
	my $several = "SET fasted.engine = cuda; SET fasted.gpu_devices = '0, 1, 2'";

	is($node->safe_psql('postgres', "$several; $nearest{$name}"), $wanted, "$name: three devices");
	my (undef, $panels, $said) = $node->psql('postgres',
		"$several; SET fasted.memory_limit = '1MB'; SET client_min_messages = debug1; $nearest{$name}");
	is($panels, $wanted, "$name, in panels");
	like($said, qr/panels ([2-9]|\d\d)/, 'there were several panels');
	my (undef, undef, $err) = $node->psql('postgres', "$several; SET fasted.gpu_memory_limit = '9kB'; $nearest{$name}");
	like($err, qr/ERROR:  the GPU reported an error\nDETAIL:  1: /, "$name: a device fails");
	my $plan = $node->safe_psql('postgres', "$several; EXPLAIN (ANALYZE) $nearest{$name}");
	like($plan, qr/Device: .* \(0, \d+%\), .* \(1, \d+%\), .* \(2, \d+%\)$/m, "$name: each device's share");
}

# The engine is opened when the GPU is ready.
my $one = "SET fasted.engine = cuda; SET fasted.gpu_devices = '0'; SET fasted.gpu_memory_limit = '18kB'; SET client_min_messages = debug1";
is($node->safe_psql('postgres', "$one; $queries{pairs}"), $right{pairs}, 'the GPU is initialized while rows are read');

# The GPU cannot be opened for the first relation.
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION few() RETURNS SETOF int LANGUAGE plpgsql STABLE ROWS 100000000 AS
	$$ BEGIN RETURN QUERY SELECT * FROM generate_series(1, 10); END $$;
CREATE VIEW thought_large AS SELECT i AS id, ARRAY[i, i % 7]::real[] AS v FROM few() AS i;
CREATE VIEW thought_equal AS SELECT * FROM thought_large;
END
my $of_two = "SELECT count(*), sum(id_a * id_b) FROM fasted_knn_join('thought_large', 'v', 'thought_equal', 'v', 2, a_id => 'id', b_id => 'id')";
my (undef, $cpu_found, $warning) = $node->psql('postgres', "SET fasted.engine = auto; SET fasted.gpu_devices = '1'; SET fasted.gpu_memory_limit = '2kB'; $of_two; SET fasted.engine = cpu; $of_two");
like($cpu_found, qr/^(20\|\d+)\n\1$/, 'the CPU finds the neighbors');
like($warning, qr/WARNING:  the GPU failed/, 'after a warning');

# The engine gets the timeout, and is stopped when the session ends.
for my $case ([ '3s', 3000 ], [ 0, 1 ], [ -1, 0 ])
{
	my $seen = -s $node->logfile;
	$node->safe_psql('postgres', "$one; SET fasted.gpu_idle_timeout = '$case->[0]'; $queries{count}");
	ok($node->wait_for_log(qr/simulated GPUs stopped, idle_timeout $case->[1]\n/, $seen), "gpu_idle_timeout $case->[0]");
}

# Cancelled while running; the session remains usable.
my ($status, $out, $err) = $node->psql('postgres', "SET fasted.engine = cuda; SET fasted.gpu_devices = '0, 1, 2';
	SET statement_timeout = '50ms'; SELECT count(*) FROM fasted_self_join('items', 'v', 100), generate_series(1, 1000);
	RESET statement_timeout; $queries{count}", on_error_stop => 0);
like($err, qr/statement timeout/, 'statement_timeout cancels the join');
is($out, $right{count}, 'the session remains usable');

# A thread sorts this many keys while the GPUs work.
$node->safe_psql('postgres', <<'END');
CREATE TABLE many AS SELECT 140000 - i AS id, ARRAY[i / 2 * 10, 0]::real[] AS v FROM generate_series(0, 139999) AS i;
CREATE TABLE twice AS SELECT greatest(id, 2) AS id, v FROM many;
END
my $near_ids = "SELECT count(*), sum(id_b - id_a), bool_and(id_a < id_b) FROM fasted_self_join('many', 'v', 1, id_column => 'id')";
for my $list ('0', '0, 1, 2')
{
	my $settings = "SET fasted.engine = cuda; SET fasted.gpu_devices = '$list'; SET max_parallel_workers_per_gather = 0";
	($status, $out, $err) = $node->psql('postgres',
		"$settings; SELECT count(*) FROM fasted_self_join('twice', 'v', 1, id_column => 'id')");
	like($err, qr/key column "id" of relation "twice" is not unique/, "devices $list: a duplicate key is an error");
	($status, $out, $err) = $node->psql('postgres',
		"$settings; $near_ids;\n" . join('', map { "SET statement_timeout = '${_}ms'; $near_ids;\n" } (60, 70, 80, 90, 100)) . "RESET statement_timeout; $queries{count}",
		extra_params => ['-q'], on_error_stop => 0);
	my @lines = split /\n/, $out;
	is($lines[0], '70000|70000|t', "devices $list: pairs have the right ids");
	is($lines[-1], $right{count}, "devices $list: the session remains usable after timeouts");
}

done_testing();
