# Which engine is used, on a machine without a GPU.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('engine');
create_wide_views($node);

my $small = "SELECT count(*) FROM fasted_self_join('small', 'v', 1)";

# Runs SQL in a new session, and returns the output and the verbose messages.
sub with_engine
{
	my ($engine, $sql) = @_;
	my ($status, $out, $err) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nSET client_min_messages = debug1; SET fasted.engine = $engine; $sql");
	return ($status, $out, $err);
}

my ($status, $out, $err) = with_engine('cpu', $small);
is($out, 99, 'cpu: all pairs');
like($err, qr/engine cpu/, 'cpu: the statistics name the CPU engine');

($status, $out, $err) = with_engine('auto', $small);
is($out, 99, 'auto: all pairs');
like($err, qr/engine cpu/, 'auto: a small join uses the CPU');

# By its estimates a large join, worth a GPU; in fact it has few rows.
$node->safe_psql('postgres', <<'END');
CREATE VIEW thought_large AS
	SELECT a.id * 1000 + b.id AS id, a.v || array_fill(0::real, ARRAY[1000]) AS v
	FROM small a, small b WHERE b.id = 1 OR (a.v::text || b.v::text) ~ 'x';
END
($status, $out, $err) = with_engine('auto',
	"SELECT count(*) FROM fasted_self_join('thought_large', 'v', 1, id_column => 'id')");
is($out, 99, 'auto: works for an estimate of any size');

# Two sides: size is that of both together.  The rows are only estimated.
$node->safe_psql('postgres', <<'END');
CREATE TABLE few AS SELECT id, v || array_fill(0::real, ARRAY[1000]) AS v FROM small LIMIT 100;
CREATE TABLE many AS TABLE few;
CREATE TABLE one AS SELECT * FROM few LIMIT 1;
ANALYZE few, many, one;
UPDATE pg_class SET reltuples = 1e7, relpages = 1 WHERE oid = 'many'::regclass;
END
for my $case ([ 'few', 'many', 1 ], [ 'many', 'few', 1 ], [ 'few', 'few', 0 ], [ 'one', 'few', 0 ])
{
	my ($a, $b, $large) = @$case;
	($status, $out, $err) = with_engine('auto', "SET enable_nestloop = off; SELECT count(*) FROM $a a LEFT JOIN $b b ON fasted_within(a.v, b.v, 0)");
	is(scalar($err =~ /no CUDA engine|engine cuda/), $large ? 1 : '', "auto: $a with $b");
}

($status, $out, $err) = with_engine('cuda', $small);
if ($status == 0)
{
	is($out, 99, 'cuda: there is a GPU, and it finds the pairs');
}
else
{
	like($err, qr/0A000: the CUDA engine is not available/, 'cuda: an error, because CUDA is not available');
	like($err, qr/DETAIL:  \S/, 'cuda: the detail gives the reason');
	like($err, qr/HINT:  .*fasted.engine = auto/, 'cuda: the hint tells what to do');
}

# The filter that each kernel of this machine uses: by default an integer filter, if the kernel
# has one, or FP32; and FP32 if a GPU's filter is requested.
$node->safe_psql('postgres', <<'END');
SELECT setseed(0.5);
CREATE TABLE middling AS
	SELECT g AS id, array(SELECT (random() + 10 * (g % 50))::real FROM generate_series(1, 40)) AS v
	FROM generate_series(1, 5000) g;
END
my %integers = (avx2int16 => 'int16', map { $_ => 'fp32' } qw(avx512 avx2 neon portable));
my $kernels = 0;
for my $kernel (split /\n/, $node->safe_psql('postgres',
		"LOAD 'fasted'; SELECT unnest(enumvals) FROM pg_settings WHERE name = 'fasted.cpu_kernel'"))
{
	($status, $out, $err) = with_engine('cpu', "SET fasted.cpu_kernel = $kernel; $small");
	if ($err =~ /DETAIL:  This CPU does not support the CPU kernel "$kernel"\./)
	{
		note("$kernel does not run here");
		next;
	}
	$kernels++;
	my $integers = $kernel eq 'auto' ? 'int8|int16|fp32' : $integers{$kernel} // 'int8';
	my %filters = (auto => "$integers|fp32", int8 => $integers, fp16 => 'fp32', fp64 => 'fp32');
	for my $filter (sort keys %filters)
	{
		my $name = "$kernel, fasted.filter = $filter";
		my $plan = $node->safe_psql('postgres', "SET fasted.cpu_kernel = $kernel; SET fasted.filter = $filter; "
				. "EXPLAIN (ANALYZE) SELECT count(*) FROM fasted_self_join('middling', 'v', 2.2, id_column => 'id')");
		like($plan, qr/Distance Filter: (?:$filters{$filter})$/m, "$name: the filter of the CPU engine");
		like($plan, qr/Pairs: [1-9]/, "$name: there are pairs");
		unlike($plan, qr/Sampled/, "$name: nothing is left to a sample") if $filter ne 'auto';
	}
}
cmp_ok($kernels, '>', 1, 'several kernels can run');

($status, $out, $err) = with_engine('abacus', $small);
like($err, qr/22023: invalid value for parameter "fasted.engine"/, 'an unknown engine is rejected');
like($err, qr/HINT:  Available values: auto, cpu, cuda/, 'the hint lists the engines');
($status, $out, $err) = $node->psql('postgres', "$small; SET fasted.enigne = 'cpu'");
like($err, qr/invalid configuration parameter name "fasted.enigne"/, 'a misspelled setting is rejected');

$node->stop;
done_testing();
