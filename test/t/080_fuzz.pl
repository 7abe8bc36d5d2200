# Random calls, joins and related queries (Metamorphic.pm).  Each returns the right result, or is
# rejected with an SQLSTATE that doc/functions.md lists, and the server survives.  By default, there
# is one complete list of cases of related queries.  "make fuzz" runs the test alone, for longer.
#
#	FASTED_SEED=N			selects other cases than those of this revision
#	FASTED_FUZZ_SECONDS=N	duration, instead of one list
#	FASTED_ENGINE=cuda		uses that engine
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Metamorphic;
use Test::More;
use Time::HiRes qw(time);

my $seed = random_seed();
my $seconds = $ENV{FASTED_FUZZ_SECONDS};
# the limit of FastedTest, after the end
alarm 900 + ($seconds // 600);

is(join(', ', impossible_elements(20_000)), '', 'each type can hold its elements');

my $node = new_node('fuzz', "max_parallel_workers_per_gather = 2\nclient_min_messages = error\n"
	  . "statement_timeout = '100s'\nfasted.engine = " . ($ENV{FASTED_ENGINE} // 'cpu') . "\n");
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION some_vector(seed int, d int) RETURNS real[] LANGUAGE sql IMMUTABLE AS
	$$ SELECT array_agg((1 + abs(hashint8extended(k, seed / 2) % 5))::real) FROM generate_series(1, d) k $$;
CREATE TABLE small (id int PRIMARY KEY, word text, k int, v real[]);
INSERT INTO small SELECT g, 'w' || g, nullif(g % 7, 3), CASE WHEN g % 11 <> 0 THEN some_vector(g, 6) END FROM generate_series(1, 120) g;
CREATE TABLE large (id bigint PRIMARY KEY, word text UNIQUE, k int, v float8[]);
INSERT INTO large SELECT g, md5(g::text), g % 5, some_vector(g, 40) FROM generate_series(1, 300) g;
CREATE TABLE empty (LIKE small INCLUDING ALL);
CREATE VIEW seen AS SELECT * FROM small WHERE id % 2 = 0;
CREATE TABLE parts (LIKE small) PARTITION BY HASH (id);
CREATE TABLE part_a PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE part_b PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parts TABLE small;
CREATE TABLE mixed AS SELECT id, word, k, v || array_fill(1::real, ARRAY[id % 2]) AS v FROM small WHERE v IS NOT NULL;
CREATE TABLE broken AS SELECT id, word, k, CASE WHEN id = 9 THEN '{1,2,NULL,4,5,6}' ELSE v END AS v FROM small;
CREATE TABLE twice AS SELECT id / 2 AS id, word, k, v FROM small;
CREATE SEQUENCE counter;
ANALYZE;
END

# --- one session, which reports errors as SQLSTATEs

my $session;
my $lives = 0;

sub connect_session
{
	$session = FastedTest::Session->new($node);
	$session->query('\set VERBOSITY sqlstate');
	$session->query("SET statement_timeout = '100s'");
	$lives++;
	return;
}

# Returns the rows, or the SQLSTATE of the first error.
sub answer
{
	my ($sql) = @_;
	my $out = $session->query($sql);
	# the error message may arrive after the output that follows it
	wait_until(sub { $session->{run}->pump_nb; $session->{err} =~ /ERROR:\s+\w{5}/ }, 0.05) if $session->{err} ne '';
	return $session->{err} =~ /ERROR:\s+(\w{5})/ ? "error $1" : $session->{err} ne '' ? "message $session->{err}" : $out;
}

sub random_settings
{
	my %values = (
		'fasted.threads' => [ 0, 1, 2, 5 ], 'fasted.memory_limit' => [ "'1MB'", "'1GB'" ],
		'fasted.cpu_kernel' => [qw(auto portable)], 'fasted.filter' => [qw(auto int8)],
		'fasted.scan_node' => [qw(on off)], 'max_parallel_workers_per_gather' => [ 0, 1, 2 ],
		'min_parallel_table_scan_size' => [ 0, "'8MB'" ], 'parallel_setup_cost' => [ 0, 1000 ],
		'plan_cache_mode' => [qw(force_generic_plan force_custom_plan)], 'work_mem' => [ "'64kB'", "'4MB'" ]);
	return join ' ', map { "SET $_ = " . pick(@{ $values{$_} }) . ';' } sort keys %values;
}

# --- calls of functions

my %refused = map { $_ => 1 } qw(22023 22004 22003 22000 2202E 23502 23505 42P01 42703 42809 42804 42501 42704 42883
  0A000 53400 54000);
# values of each argument: valid, invalid, and valid depending on the rows
my @relations = qw(small large empty parts part_a seen);
my %wrong = (
	relation => [qw(counter small_pkey nowhere), undef],
	column => [qw(id word k nothing), '', undef],
	eps => [ -1, "'NaN'", undef, "'-Infinity'", -1e-300 ],
	id_column => [qw(v nothing), '']);
my %unsure = (relation => [qw(mixed broken twice)], id_column => ['k']);
my @eps = (0, 1e-300, 1, 1.5, 2, 2.2360679774997896, 3, 4, 1e10, 1e308, "'Infinity'");

sub literal { my ($value) = @_; return !defined $value ? 'NULL' : $value =~ /^[-'0-9]/ ? $value : "'$value'"; }

# Returns a call with at most a few invalid arguments: its text, whether it is valid
# (undefined if that depends on the rows), and its properties.
sub random_call
{
	my %call = (relation => pick(@relations), column => 'v', eps => pick(@eps), id_column => undef, right => 1);
	$call{id_column} = 'id' if $call{relation} eq 'seen' || $call{relation} =~ /^part/ || rand() < 0.3;
	$call{function} = pick(qw(self_join self_join neighbors cluster keep_one));
	if (rand() < 0.4)
	{
		my $bad = pick(sort keys %wrong);
		my $depends = exists $unsure{$bad} && rand() < 0.4;
		$call{right} = $depends ? undef : 0;
		$call{$bad} = pick(@{ $depends ? $unsure{$bad} : $wrong{$bad} });
		# a self-join within NULL is empty
		$call{right} = undef if $call{function} eq 'self_join' && !defined $call{eps};
	}
	my @options = defined $call{id_column} || rand() < 0.3 ? ('id_column => ' . literal($call{id_column})) : ();
	if ($call{function} eq 'self_join')
	{
		for my $flag (grep { rand() < 0.4 } qw(ordered self_pairs))
		{
			$call{$flag} = pick('true', 'true', 'false');
			push @options, "$flag => $call{$flag}";
		}
	}
	elsif ($call{function} eq 'cluster' && rand() < 0.5)
	{
		my $points = pick(1, 2, 3, 5, 100, 2147483647, rand() < 0.2 ? (0, -1, 'NULL') : ());
		$call{right} = 0 if $points !~ /^[1-9]/;
		push @options, "min_samples => $points";
	}
	my $typed = $call{function} ne 'cluster' && rand() < 0.3;
	my @arguments = (literal($call{relation}), literal($call{column}), literal($call{eps}), ($typed ? 'id_type => NULL::bigint' : ()),
		sort { rand() <=> 0.5 } @options);
	$call{sql} = "fasted_$call{function}(" . join(', ', @arguments) . ')';
	return \%call;
}

# Returns the expected result, by plain SQL; or one property of it if SQL has no short form.
sub expected_of
{
	my ($call) = @_;
	my $pairs = "$call->{relation} a JOIN $call->{relation} b ON fasted_distance(a.v::real[], b.v::real[]) <= $call->{eps}";
	if ($call->{function} eq 'self_join')
	{
		my $ordered = ($call->{ordered} // '') eq 'true' ? 'a.id <> b.id' : 'a.id < b.id';
		$ordered = "($ordered OR a.id = b.id)" if ($call->{self_pairs} // '') eq 'true';
		return ('count(*), sum(hashtextextended(id_a || \' \' || id_b || \' \' || dist, 0)::numeric)',
			"SELECT a.id AS id_a, b.id AS id_b, fasted_distance(a.v::real[], b.v::real[]) AS dist FROM $pairs AND $ordered");
	}
	return ('count(*), sum(id * neighbors)', "SELECT a.id, count(*) - 1 AS neighbors FROM $pairs GROUP BY a.id")
	  if $call->{function} eq 'neighbors';
	# each row has a representative; a representative is a row
	return ('count(*), sum(id)', "SELECT id FROM $call->{relation} WHERE v IS NOT NULL");
}

# The nearest rows of each row, in the same way.
my @alike = qw(small parts part_a seen empty);
my %wrong_nearest = (
	a => $wrong{relation}, b => [ @{ $wrong{relation} }, 'large' ], column => $wrong{column}, k => [ 0, -1, undef ],
	eps => [ -1, "'NaN'", "'-Infinity'" ], partition_by => [ 'nothing', '' ], metric => [ 'l3', '', undef ], a_id => $wrong{id_column});

sub random_nearest
{
	my %call = (a => pick(@alike), column => 'v', k => pick(1, 2, 3, 10, 1000, 2147483647), eps => pick(@eps, undef, undef),
		partition_by => pick(undef, undef, 'k'), metric => 'l2', right => 1);
	$call{a} = 'large' if rand() < 0.1;
	$call{b} = $call{a} eq 'large' || rand() < 0.4 ? $call{a} : pick(@alike);
	@call{qw(a_id b_id)} = ('id', 'id') if "$call{a} $call{b}" =~ /seen|part/ || rand() < 0.3;
	if (rand() < 0.4)
	{
		my $bad = pick(sort keys %wrong_nearest);
		my $depends = $bad eq 'a' && rand() < 0.4;
		$call{$bad} = pick(@{ $depends ? $unsure{relation} : $wrong_nearest{$bad} });
		# an empty relation matches vectors of any length, and all vectors of "large" have the same length
		$call{right} = $depends || $bad eq 'b' && ($call{a} eq 'empty' || ($call{b} // '') eq $call{a}) ? undef : 0;
	}
	my @options = map { defined $call{ $_->[1] } || $_->[1] eq 'metric' ? "$_->[0] => " . literal($call{ $_->[1] }) : () }
	  ([qw(max_distance eps)], map { [ $_, $_ ] } qw(partition_by metric a_id b_id));
	my $typed = rand() < 0.3;
	my @arguments = ((map { literal($call{$_}) } qw(a column b column k)), ($typed ? 'id_type => NULL::bigint' : ()));
	$call{sql} = 'fasted_knn_join(' . join(', ', @arguments, @options) . ')';
	my $dist = 'fasted_distance(a.v::real[], b.v::real[])';
	my @conditions = ("$dist <= " . ($call{eps} // "'Infinity'"), ($call{partition_by} ? 'a.k = b.k' : ()), ($call{a} // '') eq ($call{b} // '') ? 'a.id <> b.id' : ());
	$call{expected} = [ "count(*), sum(hashtextextended(id_a || ' ' || id_b || ' ' || dist || ' ' || rank, 0)::numeric)",
		"SELECT * FROM (SELECT a.id AS id_a, b.id AS id_b, $dist AS dist, row_number() OVER (PARTITION BY a.id ORDER BY $dist, b.id) AS rank "
		  . "FROM $call{a} a, $call{b} b WHERE " . join(' AND ', @conditions) . ") n WHERE rank <= $call{k}" ] if $call{right};
	return \%call;
}

# The eps for a mean number of neighbours; exact for so few rows, and NULL for too few.
my %wrong_epsilon = (relation => $wrong{relation}, column => $wrong{column}, neighbors => [ 0, -1, "'NaN'", undef ],
	sample_rows => [ 99, -1 ], metric => [ 'l3', undef ], ignore_copies => [undef]);

sub random_epsilon
{
	my %call = (relation => pick(@relations, 'twice'), column => 'v', neighbors => pick(0.5, 1, 2, 7, 20, 1e9), sample_rows => undef,
		metric => 'l2', ignore_copies => pick('false', 'true'), right => 1);
	if (rand() < 0.5)
	{
		my $bad = pick(sort keys %wrong_epsilon);
		$call{$bad} = pick(@{ $wrong_epsilon{$bad} });
		$call{right} = 0;
	}
	my @options = map { defined $call{$_} || $_ ne 'sample_rows' ? "$_ => " . literal($call{$_}) : () } qw(sample_rows metric ignore_copies);
	$call{sql} = 'fasted_epsilon(' . join(', ', (map { literal($call{$_}) } qw(relation column neighbors)), @options) . ')';
	$call{expected} = [ 'max(eps)', "SELECT dist AS eps FROM (SELECT fasted_distance(a.v::real[], b.v::real[]) AS dist, "
		  . 'row_number() OVER (ORDER BY fasted_distance(a.v::real[], b.v::real[])) AS n '
		  . "FROM $call{relation} a JOIN $call{relation} b ON (a.id, a.word) < (b.id, b.word) AND a.v IS NOT NULL AND b.v IS NOT NULL "
		  . (($call{ignore_copies} // '') eq 'true' ? 'AND a.v <> b.v' : '') . ') d '
		  . "WHERE n = ceil($call{neighbors} * (SELECT count(v) FROM $call{relation}) / 2.0)" ] if $call{right};
	return \%call;
}

my %ways = (
	'as it is' => '%s', 'in a CTE' => 'WITH q AS MATERIALIZED (%s) SELECT * FROM q', 'without end' => '%s OFFSET 0',
	'with a LIMIT' => '%s LIMIT 1000000000', 'in a subquery' => 'SELECT q.* FROM (VALUES (1)) x (n), LATERAL (%s) q WHERE n = 1');

# Returns an error in the result of a random call, if there is one.
sub test_call
{
	my $kind = rand();
	my $call = $kind < 0.3 ? random_nearest() : $kind < 0.4 ? random_epsilon() : random_call();
	my $rows = sprintf $ways{ pick(sort keys %ways) }, "SELECT * FROM $call->{sql}";
	my $settings = random_settings();
	my ($sum, $reference) = !$call->{right} ? ('count(*)', '') : $call->{expected} ? @{ $call->{expected} } : expected_of($call);
	my $sql = "SELECT $sum FROM ($rows) q";
	$sql = "PREPARE p AS $sql; EXECUTE p; EXECUTE p; DEALLOCATE p" if rand() < 0.2;
	my ($got) = split /\n/, answer("DEALLOCATE ALL; RESET ALL; $settings $sql");
	my $is_refused = $got =~ /^error (\w+)/ && $refused{$1};
	my $expected = $call->{right} ? answer("RESET ALL; SET fasted.join_node = off; SET statement_timeout = '20s'; SELECT $sum FROM ($reference) q") : 'an error';
	return if $call->{right} ? $got eq $expected || $expected eq 'error 57014' : $is_refused || !defined $call->{right} && $got =~ /^\d+$/;
	return "$settings\n$sql\ngives $got, not $expected";
}

# --- joins: nested, of several relations, partitioned, inside other SQL

my $depth = 0;

sub random_source
{
	$depth++;
	my $source = $depth > 3 || rand() < 0.6 ? pick(qw(small small seen parts part_a))
	  : rand() < 0.5 ? '(' . random_select() . ')' : '(SELECT * FROM small WHERE id > ' . int(rand(100)) . ' ORDER BY id LIMIT 50)';
	$depth--;
	return $source;
}

sub random_distance
{
	my ($a, $b) = @_;
	return pick("fasted_within($a.v, $b.v, " . pick(0, 1, 2, 3, 'sqrt(3)') . ')',
		"fasted_within($a.v, $b.v, " . pick(0.001, 0.01, 0.05) . ", 'cosine')",
		"fasted_distance($b.v, $a.v) < " . pick(1, 2, '(SELECT 2)'), "fasted_cosine_distance($a.v, $b.v) <= 0.02");
}

sub random_condition
{
	my ($a, $b) = @_;
	my @more = ("$a.id < $b.id", "$a.id <> $b.id", "$a.k = $b.k", "$a.k IS NOT DISTINCT FROM $b.k", "$a.word < $b.word", "$a.id % 3 = $b.k",
		"($a.k = 1 OR $b.id > 40)", "$b.k > 2", "coalesce($a.k, 5) + $b.id > 30", "$a.word LIKE '%1%'");
	return join ' AND ', sort { rand() <=> 0.5 } random_distance($a, $b), map { pick(@more) } 1 .. int(rand(3));
}

# With columns id, word, k, v, so that the result can itself be joined.
sub random_select
{
	my $from = random_source() . ' a';
	my $shape = rand();
	my $condition = random_condition('a', 'b');
	return "SELECT a.* FROM $from WHERE " . pick('', 'NOT ') . 'EXISTS (SELECT FROM ' . random_source() . " b WHERE $condition)" if $shape < 0.25;
	return "SELECT min(a.id) AS id, max(a.word) AS word, a.k, (SELECT v FROM small WHERE id = min(a.id)) AS v FROM $from JOIN " . random_source()
	  . " b ON $condition GROUP BY a.k" if $shape < 0.4;
	return "SELECT a.id, b.word, a.k, b.v FROM $from " . pick('JOIN', 'LEFT JOIN', 'RIGHT JOIN') . ' ' . random_source() . " b ON $condition"
	  if $shape < 0.75;
	return "SELECT a.id, a.word, c.k, a.v FROM $from JOIN " . random_source() . " b ON $condition LEFT JOIN small c ON " . random_condition('b', 'c')
	  if $shape < 0.9;
	return 'SELECT a.* FROM small a JOIN seen b ON ' . random_condition('a', 'b') . ' ' . pick('UNION ALL', 'EXCEPT', 'INTERSECT')
	  . ' SELECT a.* FROM seen a WHERE a.k > 1';
}

sub test_join
{
	my $sql = 'SELECT count(*), sum(hashtextextended(q::text, 0)::numeric) FROM (' . random_select() . ') q';
	my $settings = random_settings();
	my $forced = pick('', 'SET enable_nestloop = off; SET enable_hashjoin = off; SET enable_mergejoin = off;');
	my $expected = answer("RESET ALL; SET fasted.join_node = off; SET statement_timeout = '5s'; $sql");
	return if $expected eq 'error 57014';
	my $got = answer("RESET ALL; SET statement_timeout = '100s'; $settings $forced $sql");
	return $got eq $expected ? undef : "$settings $forced\n$sql\ngives $got, not $expected";
}

# --- five calls and joins after each case of related queries

connect_session();
create_metamorphic($node, sub {
	my ($script) = @_;
	return eval { $session->query($script) } // do { diag("the session ended: " . substr($@, -2000)); connect_session(); undef };
});
my %tests = (call => \&test_call, join => \&test_join, 'related queries' => \&test_case);
my %count = map { $_ => 0 } keys %tests;
my @wrong;
my $end = time + ($seconds // 0);
for (my $i = 0; @wrong < 5 && (defined $seconds ? time < $end : $Metamorphic::count{arrays} == 0); $i++)
{
	my $what = $i % 6 ? pick(qw(call call join)) : 'related queries';
	my $failure = eval { $tests{$what}->() };
	$count{$what}++;
	if ($@)
	{
		push @wrong, "the session ended: $@ " . join '', $session->{err};
		connect_session();
	}
	push @wrong, $failure if defined $failure;
}
note("$count{call} calls, $count{join} joins, $Metamorphic::count{queries} related queries of $count{'related queries'} cases, $Metamorphic::count{arrays} complete lists of cases");
is(join("\n\n", @wrong), '', "random queries, FASTED_SEED=$seed");
cmp_ok($count{$_}, '>', 0, "there was a test of $_") for sort keys %count;
is($lives, 1, 'all queries ran in one session');
is($node->safe_psql('postgres', 'SELECT count(*) FROM small'), '120', 'the server is running');
unlike(log_since($node, 0), qr/terminated by signal|TRAP:|PANIC/, 'the server never crashed');
$session->quit;
$node->stop;
done_testing();
