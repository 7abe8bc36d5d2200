# Workers with GPUs, if FASTED_ENGINE=cuda; otherwise all use the CPU engine.  Also
# workers with different engines.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../../test/t";
use CitusCluster;
use FastedTest;
use Test::More;

my $engine = $ENV{FASTED_ENGINE} // 'cpu';
my ($node, @workers) = new_cluster('engines');

sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }
sub failure { my ($sql) = @_; my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql"); return $err; }

# Whole-number rows in 200 clusters, so that distances tie at eps; every tenth row
# is a duplicate.
sql(<<'END');
CREATE TABLE plain (id int PRIMARY KEY, v real[], p int);
INSERT INTO plain SELECT i * 7919 % 1000003, (SELECT array_agg(((hashint4(j % 200 * 1024 + k) & 63) + (hashint4(j * 1024 + k) & 3))::real)
		FROM generate_series(1, 150) k), hashint4(i) % 5
	FROM (SELECT i, CASE WHEN i % 10 = 0 THEN i - 1 ELSE i END AS j FROM generate_series(1, 16000) i) x;
CREATE TABLE dist (LIKE plain INCLUDING ALL);
SELECT create_distributed_table('dist', 'id');
INSERT INTO dist TABLE plain;
CREATE TABLE plain_few AS SELECT id, v FROM plain WHERE id % 4 = 0;
ALTER TABLE plain_few ADD PRIMARY KEY (id);
CREATE TABLE few (id int PRIMARY KEY, v real[]);
SELECT create_reference_table('few');
INSERT INTO few TABLE plain_few;
END

my %calls = (
	'pairs' => "fasted_self_join('dist', 'v', 18)",
	'pairs by cosine' => "fasted_self_join('dist', 'v', 0.00075, metric => 'cosine')",
	'neighbors' => "fasted_neighbors('dist', 'v', 18)",
	'clusters' => "fasted_cluster('dist', 'v', 17)",
	'DBSCAN' => "fasted_cluster('dist', 'v', 17, 4)",
	'the row to keep' => "fasted_keep_one('dist', 'v', 17)",
	'the row to keep, by a priority' => "fasted_keep_one('dist', 'v', 17, 'p')",
	'nearest rows' => "fasted_knn_join('dist', 'v', 'dist', 'v', 5)",
	'nearest rows of another table' => "fasted_knn_join('dist', 'v', 'few', 'v', 3)");

# The number of rows, and a sum of their hashes.
sub digest { my ($call) = @_; return "SELECT count(*), sum(hashtext(x::text)::bigint) FROM $call x"; }

# The result of the CPU engine of one server.
sub right
{
	my ($call) = @_;
	$call =~ s/'(dist|few)'/$1 eq 'dist' ? "'plain'" : "'plain_few'"/ge;
	return sql('SET fasted.engine = cpu; SET fasted.prune = off; ' . digest($call));
}
my %right = map { $_ => right($calls{$_}) } keys %calls;
my $count = sql("SET fasted.engine = cpu; SELECT count(*) FROM fasted_self_join('plain', 'v', 18)");
cmp_ok($count, '>', 16000, "there are pairs: $count");

# Returns the engine of each worker, from a line of EXPLAIN.
sub engines
{
	my ($call, $settings) = @_;
	my $plan = sql("$settings; EXPLAIN (ANALYZE, TIMING off, COSTS off) SELECT * FROM $call");
	my ($line) = $plan =~ /Citus Workers: (.*)/ or return "none in\n$plan";
	return join(' ', $line =~ /\(\d+%, (\w+)/g);
}

sub all_right
{
	my ($name, $settings, @calls) = @_;
	for my $call (@calls)
	{
		my ($status, $out, $err) = $node->psql('postgres', "$settings; " . digest($calls{$call}));
		is($out, $right{$call}, "$call: $name") or diag($err);
	}
	return;
}

for my $settings ('SET fasted.prune = off', 'SET fasted.prune = force', 'SET fasted.filter = fp16')
{
	all_right($settings, $settings, $settings =~ /prune/ ? sort keys %calls : ('pairs', 'nearest rows'));
	is(sql("$settings; SELECT count(*) FROM fasted_self_join('dist', 'v', 18)"), $count, "count(*): $settings");
	is(engines($calls{$_}, $settings), "$engine $engine $engine", "$_: engines, $settings") for 'pairs', 'nearest rows';
}
note(sql("SET fasted.prune = force; EXPLAIN (ANALYZE, COSTS off) SELECT * FROM $calls{pairs}"));

# --- one worker has a different engine

# settings of the session are sent to the workers, too
delete $ENV{PGOPTIONS};
SKIP:
{
	skip('no GPU', 1) if $engine ne 'cuda';
	configure('fasted.engine = cpu', $workers[2]);
	like(failure('SELECT * FROM ' . $calls{pairs}),
		qr/55000: the Citus workers divide the join into different slices.*: cuda, .*: cpu, .*HINT: .*fasted\.engine = cpu/s,
		'different engines divide the join differently');
	all_right('engines that differ', 'SET fasted.prune = off', 'nearest rows', 'nearest rows of another table');
	is(engines($calls{'nearest rows'}, 'SET fasted.prune = off'), 'cuda cuda cpu', 'different engines: nearest neighbours by shares of rows');
	all_right('the same engine', 'SET fasted.engine = cpu', 'pairs', 'DBSCAN');
	is(engines($calls{pairs}, 'SET fasted.engine = cpu'), 'cpu cpu cpu', 'the same engine on all workers');
	configure('fasted.engine = cuda', $workers[2]);

	# each worker has a GPU of its own
	my $gpus = defined $ENV{CUDA_VISIBLE_DEVICES} ? split(/,/, $ENV{CUDA_VISIBLE_DEVICES}) : grep { /^GPU/ } `nvidia-smi -L`;
	last SKIP if $gpus < 2;
	configure("fasted.gpu_devices = '0'", $workers[0]);
	configure("fasted.gpu_devices = '1'", @workers[1, 2]);
	all_right('GPUs of one kind', 'SET fasted.prune = off', 'pairs', 'clusters', 'nearest rows');
	for my $name ('pairs', 'neighbors')
	{
		# they reorder rows identically, or report that they do not
		my ($status, $out, $err) = $node->psql('postgres', "SET fasted.prune = force; " . digest($calls{$name}));
		note("identical GPUs, pruned: $out $err");
		ok($out eq $right{$name} || $err =~ /divide the join into different slices.*fasted\.prune = off/s, "$name: identical GPUs, pruned");
	}
	configure("fasted.gpu_devices = ''", @workers);
}

# --- a worker without a GPU, or with a hidden one

$workers[1]->stop;
{
	local $ENV{CUDA_VISIBLE_DEVICES} = '';
	start_node($workers[1]);
}
configure('fasted.engine = auto', $workers[1]);
like(failure("SET fasted.engine = cuda; SELECT * FROM $calls{pairs}"),
	qr/0A000: the CUDA engine is not available.*HINT: .*fasted\.engine = auto.*Citus worker "127/s, 'a worker without a GPU');
all_right('a worker without a GPU', 'SET fasted.engine = cpu', 'pairs', 'neighbors');
all_right('a worker without a GPU', 'SET fasted.engine = auto', 'nearest rows');

done_testing();
