# Metamorphic tests, as in SQLancer: related queries on generated tables must agree.  Each case is
# a table of random rows and a set of settings.  On it,
#	- a join by the join node returns the rows of a nested loop (NoREC)
#	- the rows for p, for NOT p and for p IS NULL are all the rows (TLP)
#	- the rows within a smaller eps are among those within a larger one
#	- the join of B and A is the transposed join of A and B
#	- a further row changes only the pairs of that row
#	- each function returns what SQL computes from the distances of all pairs
# The distances themselves are checked by sql/magnitudes.sql and test/differential.
# A failing case is reduced to few rows and dimensions, and reported as an SQL script.
package Metamorphic;

use strict;
use warnings;
use Exporter qw(import);
use FastedTest;
use List::Util qw(max min shuffle);
use Time::HiRes qw(time);

our @EXPORT = qw(pick create_metamorphic impossible_elements test_case);

# Numbers of cases, of queries, and of complete lists of cases.
our %count = (cases => 0, queries => 0, arrays => 0);

# A type that converts to real[], as pgvector's types do.
my $alike = <<'SQL';
CREATE TYPE alike AS (v real[]);
CREATE FUNCTION reals_of(alike) RETURNS real[] LANGUAGE sql IMMUTABLE STRICT RETURN $1.v;
CREATE CAST (alike AS real[]) WITH FUNCTION reals_of(alike) AS IMPLICIT;
SQL

sub pick { return $_[ int(rand(@_)) ]; }

# The dimensions of a case.  A name that is a setting of the server is set to the value.
my %dimensions = (
	metric => [qw(l2 cosine inner_product hamming jaccard)],
	type => [ 'real[]', 'double precision[]', 'integer[]', 'numeric[]', 'alike', 'bit', 'bit varying' ],
	# of all elements; or drawn for each row or for each element
	magnitude => [qw(1e-320 1e-300 1e-160 1e-100 1e-44 1e-38 1e-3 1 1e3 1e8 1e36 1e100 1e150 1e300 rows elements)],
	# "whole" numbers have many equal distances; "chain" vectors lie on lines between two dense ends;
	# "near" vectors lie around a few centres
	elements => [qw(whole chain normal near sparse)],
	copies => [qw(none some scaled all)],
	zero_vectors => [qw(none some)],
	nulls => [qw(none some)],
	rows => [ 0, 1, 2, 9, 40, 130, 260 ],
	ids => [qw(scattered ascending)],
	storage => [qw(plain main external extended)],
	dims => [ 1, 2, 8, 33, 128, 700 ],
	# the limit: a distance that occurs, at a quantile, and the next smaller number
	eps => [qw(0 0.01 0.1 0.5 1 below Infinity)],
	partitions => [qw(none few many)],
	'fasted.cpu_kernel' => ['auto'],
	'fasted.filter' => [qw(auto int8 fp16)],
	'fasted.prune' => [qw(auto force)],
	'fasted.memory_limit' => [qw(1MB 1GB)],
	'fasted.scan_node' => [qw(on off)],
	'fasted.threads' => [ 1, 3 ],
	max_parallel_workers_per_gather => [ 0, 2 ],
	enable_nestloop => [qw(on off)],
	enable_hashjoin => [qw(on off)]);

# The magnitudes that each type can represent.
my @real = qw(1e-44 1e-38 1e-3 1 1e3 1e8 1e36);
my %magnitudes = (
	'real[]' => \@real, 'numeric[]' => \@real, alike => \@real, vector => \@real, halfvec => [qw(1e-3 1 1e3)],
	'double precision[]' => [ grep { /^1/ } @{ $dimensions{magnitude} } ],
	'integer[]' => [qw(1 1e3 1e8)], bit => [1], 'bit varying' => [1]);

# Returns whether two values of different dimensions can occur in the same case.
sub fits
{
	my %case = @_;
	my ($metric, $type, $magnitude, $dims) = @case{qw(metric type magnitude dims)};
	my $of_bits = defined $metric && $metric =~ /hamming|jaccard/;
	return $of_bits == ($type =~ /^bit/ ? 1 : 0) if defined $metric && defined $type;
	return !$of_bits || $magnitude eq '1' if defined $metric && defined $magnitude;
	return $type !~ /^bit/ && $magnitude =~ /^[re]/ || scalar grep { $_ eq $magnitude } @{ $magnitudes{$type} }
	  if defined $type && defined $magnitude;
	# a nested loop would convert each vector for each pair, which takes a minute
	return $type ne 'numeric[]' || $dims < 700 if defined $type && defined $dims;
	return 1;
}

sub pair_key { return join "\t", sort "$_[0]=$_[1]", "$_[2]=$_[3]"; }

# Returns cases in which all pairs of values of any two dimensions occur if they fit.
sub pairwise
{
	my @names = sort keys %dimensions;
	my %missing;
	for my $i (0 .. $#names)
	{
		for my $x (@{ $dimensions{ $names[$i] } })
		{
			for my $other (@names[ $i + 1 .. $#names ])
			{
				my @pairs = map { [ $names[$i], $x, $other, $_ ] } @{ $dimensions{$other} };
				$missing{ pair_key(@$_) } = $_ for grep { fits(@$_) } @pairs;
			}
		}
	}
	my @cases;
	while (%missing)
	{
		my %case = @{ $missing{ pick(sort keys %missing) } };
		for my $name (shuffle grep { !exists $case{$_} } @names)
		{
			my $most = -1;
			my @chosen = sort keys %case;
			for my $value (shuffle @{ $dimensions{$name} })
			{
				next if grep { !fits($name, $value, $_, $case{$_}) } @chosen;
				my $gain = grep { exists $missing{ pair_key($name, $value, $_, $case{$_}) } } @chosen;
				($case{$name}, $most) = ($value, $gain) if $gain > $most;
			}
		}
		for my $i (0 .. $#names)
		{
			delete $missing{ pair_key($names[$i], $case{ $names[$i] }, $_, $case{$_}) } for @names[ $i + 1 .. $#names ];
		}
		push @cases, \%case;
	}
	return @cases;
}

# The largest number of a type; by default, nearly that of real.
my %largest = ('integer[]' => 2**31 - 1, 'double precision[]' => 1.7976931348623157e308, halfvec => 65504);

# Returns a number as an element of a type: the nearest number that the type can hold.
sub element_of
{
	my ($type, $x) = @_;
	return ($x > 0 xor rand() < 0.02) ? 1 : 0 if $type =~ /^bit/;
	my $most = $largest{$type} // 3.4e38;
	$x = max(-$most, min($most, $x));
	return $type eq 'integer[]' ? sprintf('%.0f', $x)
	  : $type eq 'double precision[]' ? sprintf('%.17g', $x)
	  : sprintf('%.9g', unpack('f', pack('f', $x)));
}

sub normal { return sqrt(-2 * log(1 - rand())) * cos(6.283185307179586 * rand()); }

# Adds the rows, each of an id, a partition, a priority and a vector, and the arguments of the
# functions to a case.
sub complete_case
{
	my ($case) = @_;
	my ($type, $dims) = @{$case}{qw(type dims)};
	my @centres = map { [ map { normal() } 1 .. $dims ] } 0 .. rand(6);
	my @magnitudes = $case->{magnitude} =~ /^1/ ? $case->{magnitude} : @{ $magnitudes{$type} };
	my $range = pick(3, 4, 10, 30);
	my $element = {
		whole => sub { int(rand($range)) - 1 }, chain => sub { $_[1] > 0 ? 0 : pick(0, 0, 0, 1, 2, 3, 4, 4, 4) + 10 * int(rand(1 + $case->{rows} / 10)) },
		 normal => sub { normal() }, near => sub { $_[0] + 1e-3 * normal() },
		sparse => sub { rand() < 0.2 ? pick(1, 2, -1) : 0 } }->{ $case->{elements} };
	my (@originals, @rows);
	for my $i (1 .. $case->{rows})
	{
		my ($magnitude, $centre) = (pick(@magnitudes), pick(@centres));
		my @vector = map { $element->($centre->[$_], $_) * ($case->{magnitude} eq 'elements' ? pick(@magnitudes) : $magnitude) } 0 .. $#$centre;
		if (@originals && ($case->{copies} eq 'all' || $case->{copies} ne 'none' && rand() < 0.4))
		{
			my $factor = $case->{copies} eq 'scaled' ? pick(1, 2, 0.5, -1) : 1;
			@vector = map { $factor * $_ } @{ pick(@originals) };
		}
		else
		{
			push @originals, [@vector];
		}
		@vector = (0) x $dims if $case->{zero_vectors} eq 'some' && rand() < 0.1;
		@vector = map { element_of($type, $_) } @vector;
		my $partition = $case->{partitions} eq 'none' || rand() < 0.1 ? 'NULL' : int(rand($case->{partitions} eq 'few' ? 3 : 1 + $case->{rows} / 3));
		push @rows, [ $i * 7919 % 10007, $partition, rand() < 0.1 ? 'NULL' : int(rand(20)), $case->{nulls} eq 'some' && rand() < 0.1 ? undef : \@vector ];
	}
	@rows = sort { $a->[0] <=> $b->[0] } @rows if $case->{ids} eq 'ascending';
	$case->{rows} = \@rows;
	$case->{k} = pick(1, 2, 3, 10, 1000);
	$case->{min_samples} = pick(2, 3, 7, 20);
	$case->{fraction} = pick(0.001, 0.1, 0.5, 0.9, 1);
	$case->{without} = @rows ? pick(@rows)->[0] : 0;
	$case->{predicate} = pick('a.w < b.w', 'a.p = b.p', 'b.w > 9', 'a.w + b.p > 15', 'a.id < b.id', 'a.w IS NULL', 'b.id % 2 = a.id % 3');
	$case->{shape} = pick('SELECT a.id, b.id AS c, a.w FROM t a JOIN t b ON %s', 'SELECT a.*, b.id AS c FROM t a LEFT JOIN low b ON %s',
		'SELECT a.p, b.p AS q FROM high a RIGHT JOIN t b ON %s', 'SELECT a.id FROM t a WHERE NOT EXISTS (SELECT FROM t b WHERE %s)',
		'SELECT b.w, count(*) FROM t a JOIN t b ON %s GROUP BY b.w', 'SELECT a.id, b.id AS c, x.id AS d FROM t a JOIN t b ON %s JOIN low x ON x.id = b.id');
	$case->{comparison} = pick(0 .. 2);
	return;
}

# Makes some cases without a server, and returns the elements that their type cannot hold.
sub impossible_elements
{
	my ($cases) = @_;
	my @found;
	for (1 .. $cases)
	{
		my $type = pick(sort keys %magnitudes);
		my %case = (type => $type, rows => pick((2, 9) x 10, 260), dims => 2, magnitude => pick(qw(rows elements), @{ $magnitudes{$type} }),
			map { $_ => pick(@{ $dimensions{$_} }) } qw(elements copies zero_vectors nulls partitions));
		complete_case(\%case);
		for my $x (map { @{ $_->[3] // [] } } @{ $case{rows} })
		{
			my $held = $type eq 'double precision[]' ? $x : unpack('f', pack('f', $x));
			push @found, "$type $x" unless $type =~ /^bit/ ? $x =~ /^[01]$/
			  : $type eq 'integer[]' ? $x =~ /^-?\d+$/ && abs($x) < 2**31
			  : abs($held) < ($type eq 'halfvec' ? 65520 : 9**9**9) && ($held != 0 || $x == 0);
		}
	}
	return @found;
}

# --- SQL

# Returns the function of the case's distance, applied to columns v of two relations.
sub distance
{
	my ($case, $a, $b) = @_;
	my $cast = $case->{type} eq 'halfvec' ? '::real[]' : '';
	my $name = { l2 => '', cosine => 'cosine_', inner_product => 'negative_inner_product', hamming => 'hamming_', jaccard => 'jaccard_' }->{ $case->{metric} };
	$name .= 'distance' if $name !~ /product/;
	return "fasted_$name($a.v$cast, $b.v$cast)";
}

sub value_of
{
	my ($case, $vector) = @_;
	return !defined $vector ? 'NULL'
	  : $case->{type} =~ /^bit/ ? "B'" . join('', @$vector) . "'"
	  : $case->{type} =~ /vec/ ? "'[" . join(',', @$vector) . "]'"
	  : $case->{type} eq 'alike' ? "'(\"{" . join(',', @$vector) . "}\")'"
	  : "'{" . join(',', @$vector) . "}'";
}

my $reference_settings = "RESET ALL; SET fasted.join_node = off; SET max_parallel_workers_per_gather = 0; SET statement_timeout = '20s';";

# Returns statements that create table t, views of it, and table d of all distances.
sub setup_of
{
	my ($case) = @_;
	my $type = $case->{type} eq 'bit' ? "bit($case->{dims})" : $case->{type};
	my $rows = join ",\n", map { "($_->[0], $_->[1], $_->[2], " . value_of($case, $_->[3]) . ')' } @{ $case->{rows} };
	my $partitioned = $case->{partitions} ne 'none';
	my $distance = distance($case, 'a', 'b');
	# A filler stores even short vectors out of line.  CLUSTER then gives the rows another order than their vectors.
	my $external = $case->{storage} eq 'external';
	return map { "$_;\n" } "$reference_settings DROP TABLE IF EXISTS t, d CASCADE", "CREATE TABLE t (id int PRIMARY KEY, p int, w int, v $type)",
	  "ALTER TABLE t ALTER v SET STORAGE $case->{storage}",
	  ($external ? ("ALTER TABLE t ADD filler text DEFAULT repeat('-', 2000)", 'ALTER TABLE t ALTER filler SET STORAGE plain') : ()),
	  ($rows ne '' ? "INSERT INTO t VALUES\n$rows" : ()), ($external ? 'CLUSTER t USING t_pkey' : ()),
	  'CREATE VIEW low AS SELECT * FROM t WHERE id < 5000', 'CREATE VIEW high AS SELECT * FROM t WHERE id >= 5000',
	  'CREATE VIEW texts AS SELECT id::text AS id, p, v FROM t',
	  "CREATE VIEW rest AS SELECT * FROM t WHERE id <> $case->{without}",
	  'CREATE VIEW points AS SELECT * FROM t WHERE v IS NOT NULL' . ($partitioned ? ' AND p IS NOT NULL' : ''),
	  "CREATE TABLE d AS SELECT a.id AS a, b.id AS b, $distance AS dist FROM t a JOIN t b ON a.id <> b.id"
	  . ($partitioned ? ' AND a.p = b.p' : '') . " WHERE $distance <= 'Infinity'", 'CREATE INDEX ON d (a, dist)', 'ANALYZE t, d';
}

sub settings_of
{
	my ($case) = @_;
	my $values = $case->{settings};
	# with a cost of 0, each nested loop would start workers for each outer row
	return join ' ', 'RESET ALL;', (map { "SET $_ = '$values->{$_}';" } sort keys %$values),
	  $values->{max_parallel_workers_per_gather}
	  ? 'SET parallel_setup_cost = 1; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;' : ();
}

# Returns the checks of a case: a name, a query, a query with the same result, and whether the
# second one has the settings of the case, too.
sub checks_of
{
	my ($case) = @_;
	my ($k, $min_samples, $fraction, $without, $p) = @{$case}{qw(k min_samples fraction without predicate)};
	my ($eps, $larger) = map { "'$case->{$_}'" } qw(eps larger_eps);
	my $is_product = $case->{metric} eq 'inner_product';
	my $partitioned = $case->{partitions} ne 'none';
	my $same_p = $partitioned ? ' AND a.p = b.p' : '';
	my $by = "metric => '$case->{metric}'" . ($partitioned ? ", partition_by => 'p'" : '');
	my $id = "id_column => 'id'";
	my $distance = distance($case, 'a', 'b');
	my $cast = $case->{type} eq 'halfvec' ? '::real[]' : '';
	my @near = map { $_ . $same_p } "fasted_within(a.v$cast, b.v$cast, $eps, '$case->{metric}')", "$distance <= $eps", "$eps >= " . distance($case, 'b', 'a');
	my $near = $near[ $case->{comparison} ];
	my $self_join = "SELECT id_a, id_b, dist FROM fasted_self_join('%s', 'v', %s, $by, $id)";
	my ($of_t, $of_rest) = map { sprintf $self_join, $_, $eps } qw(t rest);
	my $pairs = 'SELECT a.id, b.id AS c FROM';
	my @checks = (
		[ 'fasted_self_join', $of_t, "SELECT a, b, dist FROM d WHERE a < b AND dist <= $eps" ],
		[ 'fasted_self_join with id_type', "SELECT * FROM fasted_self_join('texts', 'v', $eps, id_type => NULL::text, $by, $id)",
			"SELECT least(a::text, b::text), greatest(a::text, b::text), dist FROM d WHERE a < b AND dist <= $eps" ],
		[ 'count of fasted_self_join', "SELECT count(*) FROM ($of_t) q", "SELECT count(*) FROM d WHERE a < b AND dist <= $eps" ],
		[ 'count of a join', "SELECT count(*) FROM t a JOIN t b ON a.id < b.id AND $near", "SELECT count(*) FROM d WHERE a < b AND dist <= $eps" ],
		[ 'inner join', "$pairs t a JOIN t b ON a.id <> b.id AND $near", "SELECT a, b FROM d WHERE dist <= $eps" ],
		[ 'inner join, less than eps', "$pairs t a JOIN t b ON a.id <> b.id AND $distance < $eps$same_p", "SELECT a, b FROM d WHERE dist < $eps" ],
		[ 'left join', "$pairs t a LEFT JOIN high b ON a.id <> b.id AND $near",
			"SELECT t.id, n.b FROM t LEFT JOIN (SELECT d.* FROM d JOIN high e ON e.id = d.b WHERE dist <= $eps) n ON n.a = t.id" ],
		[ 'semi join', "SELECT id FROM low a WHERE EXISTS (SELECT FROM t b WHERE a.id <> b.id AND $near)", "SELECT id FROM low WHERE id IN (SELECT a FROM d WHERE dist <= $eps)" ],
		[ 'anti join', "SELECT id FROM t a WHERE NOT EXISTS (SELECT FROM t b WHERE a.id <> b.id AND $near)", "SELECT id FROM t WHERE id NOT IN (SELECT a FROM d WHERE dist <= $eps)" ],
		[ 'join node and nested loop', (sprintf $case->{shape}, "$near AND $p") x 2 ],
		[ 'partition by a predicate', "$pairs t a JOIN t b ON $near", join(' UNION ALL ', map { "$pairs t a JOIN t b ON $near WHERE $_" } "($p)", "NOT ($p)", "($p) IS NULL"), 1 ],
		[ 'partition by the distance', "$pairs t a CROSS JOIN t b", join(' UNION ALL ', map { "$pairs t a JOIN t b ON $_" } $near, "NOT ($near)", "($near) IS NULL"), 1 ],
		[ 'transposed join', "$pairs low a JOIN high b ON $near", "$pairs high b JOIN low a ON " . distance($case, 'b', 'a') . " <= $eps$same_p", 1 ],
		[ 'a smaller eps', "$of_t EXCEPT ALL " . sprintf($self_join, 't', $larger), 'SELECT FROM t WHERE false', 1 ],
		[ 'a smaller eps of a join', "$pairs low a JOIN t b ON $distance <= $eps$same_p EXCEPT ALL $pairs low a JOIN t b ON $distance <= $larger$same_p", 'SELECT FROM t WHERE false', 1 ],
		[ 'two parts of the rows', $of_t, join(' UNION ALL ', (map { sprintf $self_join, $_, $eps } qw(low high)),
			"SELECT least(a.id, b.id), greatest(a.id, b.id), $distance FROM low a JOIN high b ON $near"), 1 ],
		[ 'without one row', "SELECT * FROM ($of_t) q WHERE $without NOT IN (id_a, id_b)", $of_rest, 1 ],
		[ 'neighbours without one row', "SELECT * FROM fasted_neighbors('rest', 'v', $eps, $by, $id)",
			"SELECT n.id, neighbors - (x.id IS NOT NULL)::int FROM fasted_neighbors('t', 'v', $eps, $by) n LEFT JOIN (SELECT id_a + id_b - $without AS id "
			  . "FROM ($of_t) q WHERE $without IN (id_a, id_b)) x ON x.id = n.id WHERE n.id <> $without", 1 ],
		[ 'fasted_neighbors', "SELECT * FROM fasted_neighbors('t', 'v', $eps, $by)", "SELECT * FROM reference_neighbors('points', 'd', $eps)" ],
		(map { [ "fasted_cluster, min_samples $_", "SELECT * FROM fasted_cluster('t', 'v', $eps, $_, $by)", "SELECT * FROM reference_cluster('points', 'd', $eps, $_)" ] } 1, 4, 5, $min_samples),
		[ 'fasted_keep_one', "SELECT * FROM fasted_keep_one('t', 'v', $eps, $by)", "SELECT * FROM reference_keep_one('points', 'd', $eps, 'id')" ],
		[ 'fasted_keep_one, priority', "SELECT * FROM fasted_keep_one('t', 'v', $eps, 'w', true, $by)", "SELECT * FROM reference_keep_one('points', 'd', $eps, 'w DESC NULLS LAST, id')" ],
		(map {
			my ($a, $b, $most) = @$_;
			[ "fasted_knn_join of $a and $b", "SELECT * FROM fasted_knn_join('$a', 'v', '$b', 'v', $k, a_id => 'id', b_id => 'id', max_distance => $most, $by)",
				'SELECT * FROM (SELECT a, b, dist, row_number() OVER (PARTITION BY a ORDER BY dist, b) AS rank '
				  . "FROM d WHERE dist <= coalesce(${most}::float8, 'Infinity') AND a IN (SELECT id FROM $a) AND b IN (SELECT id FROM $b)) n WHERE rank <= $k" ]
		} [ 't', 't', 'NULL' ], [ 't', 't', $eps ], [ 'low', 'high', 'NULL' ]));
	push @checks, [ 'fasted_self_join, all pairs', "SELECT * FROM fasted_self_join('t', 'v', $eps, $by, ordered => true, self_pairs => true)",
		"SELECT a, b, dist FROM d WHERE dist <= $eps UNION ALL SELECT id, id, " . distance($case, 'a', 'a') . " FROM points a WHERE " . distance($case, 'a', 'a') . " <= $eps" ] if !$is_product;
	push @checks, map { [ "join by $_", ("$pairs t a JOIN t b ON a.id <> b.id AND $_ >= 1 - ${eps}::float8$same_p") x 2 ] } "1 - $distance", $distance =~ s/distance/similarity/r
	  if $case->{metric} =~ /cosine|jaccard/;
	# the window functions number the clusters of each partition
	my $window = ($partitioned ? 'PARTITION BY p ' : '') . 'ORDER BY ';
	my $arguments = "$eps, " . '%s' . "'$case->{metric}'";
	my $label = $partitioned ? 'CASE WHEN cluster IS NOT NULL THEN min(id) OVER (PARTITION BY %scluster) END' : 'cluster%.0s';
	push @checks,
	  [ 'fasted_neighbor_count', "SELECT id, fasted_neighbor_count(v, " . sprintf($arguments, '') . ") OVER ($window id) FROM points", "SELECT * FROM fasted_neighbors('t', 'v', $eps, $by)", 1 ],
	  [ 'fasted_keep', "SELECT id, fasted_keep(v, " . sprintf($arguments, 'id, ') . ") OVER ($window w DESC NULLS LAST, id) FROM points", "SELECT id, kept FROM fasted_keep_one('t', 'v', $eps, 'w', true, $by)", 1 ],
	  map {
		[ "fasted_dbscan, min_samples $_", 'SELECT id, ' . sprintf($label, 'p, ') . " FROM (SELECT id, p, fasted_dbscan(v, " . sprintf($arguments, "$_, ") . ") OVER ($window id) AS cluster FROM points) q",
			'SELECT id, ' . sprintf($label, '') . " FROM fasted_cluster('t', 'v', $eps, $_, $by)", 1 ]
	  } 1, $min_samples;
	# no quantile of partitions, or of a sample of the rows; zero vectors have no distance by cosine
	my $sampled = ($case->{settings}{'fasted.memory_limit'} // '') eq '1MB' && 8 * $case->{dims} * @{ $case->{rows} } > 1e6;
	for my $ignore_copies ($partitioned || $sampled ? () : $is_product ? ('false') : qw(false true))
	{
		my $counted = 'd WHERE a < b' . ($ignore_copies eq 'true' ? ' AND dist > 0' : '');
		my $rows = $case->{metric} eq 'cosine' ? 'SELECT count(DISTINCT a) FROM d' : 'SELECT count(v) FROM t';
		push @checks, [ "fasted_epsilon, ignore_copies $ignore_copies",
			"SELECT eps FROM (SELECT (2 * ceil(${fraction}::float8 * count(*)) - 1) / ($rows) AS n FROM $counted HAVING count(*) > 0) q, fasted_epsilon('t', 'v', n, $by, ignore_copies => $ignore_copies)",
			"SELECT dist FROM (SELECT dist, row_number() OVER (ORDER BY dist) AS n FROM $counted) q WHERE n = (SELECT ceil(${fraction}::float8 * count(*)) FROM $counted)" ];
	}
	return @checks;
}

# --- running, reducing and reporting

my ($run, @cases);

# Prepares the database.  $function sends a script to psql, and returns the output, or undef if the
# session has ended.
sub create_metamorphic
{
	my ($node, $function) = @_;
	$run = $function;
	$node->safe_psql('postgres', $_) for reference_functions(), $alike;
	my $vector = $node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'");
	if ($vector)
	{
		$node->safe_psql('postgres', 'CREATE EXTENSION vector');
		push @{ $dimensions{type} }, grep { $node->safe_psql('postgres', "SELECT to_regtype('$_')") } qw(vector halfvec);
	}
	# the kernels of this machine
	for my $kernel (qw(portable avx2 avx2int16 avxvnni avx512 avx512vnni amx neon sdot))
	{
		my $status = $node->psql('postgres', <<SQL, on_error_stop => 1);
CREATE TEMP TABLE one AS SELECT 1 AS id, '{1}'::real[] AS v;
SET fasted.cpu_kernel = $kernel;
SELECT count(*) FROM fasted_self_join('one', 'v', 1, id_column => 'id');
SQL
		push @{ $dimensions{'fasted.cpu_kernel'} }, $kernel if $status == 0;
	}
	return;
}

# Sends a script.  Returns the results of its queries, each of which is followed by $mark: the rows or
# the error.  Returns nothing if the session has ended.
my $mark = "\\echo = :SQLSTATE :LAST_ERROR_MESSAGE\n";

sub results_of
{
	my ($script) = @_;
	my $output = $run->($script) // return;
	my ($rows, @results) = ('');
	for my $line (split /\n/, $output)
	{
		$rows .= $line if $line !~ /^= /;
		next if $line !~ /^= (\w+) ?(.*)/;
		push @results, $1 eq '00000' ? $rows : "error $1: $2";
		$rows = '';
	}
	return @results;
}

# Returns whether two results are the same, or could not be compared because the second query took too long.
sub agree
{
	my ($found, $expected) = map { s/^(error \w+).*/$1/r } @_;
	return $found eq $expected || $expected eq 'error 57014';
}

# Runs checks on the loaded table.  Returns those that fail, each with both results.
sub failures_of
{
	my ($case, @checks) = @_;
	my $script_of = sub { join '', map { "SELECT count(*), sum(hashtextextended(q::text, 0)::numeric) FROM ($_) q;\n$mark" } @_ };
	my @with_settings = grep { $_->[3] } @checks;
	my @without = grep { !$_->[3] } @checks;
	my @results = results_of(settings_of($case) . $script_of->((map { $_->[1] } @with_settings, @without), map { $_->[2] } @with_settings)
		  . $reference_settings . $script_of->(map { $_->[2] } @without)) or return [ 'the session ended', '', '' ];
	$count{queries} += @results;
	my @found = splice @results, 0, @checks;
	return map { agree($found[$_], $results[$_]) ? () : [ ($with_settings[$_] // $without[ $_ - @with_settings ])->[0], $found[$_], $results[$_] ] } 0 .. $#checks;
}

# Loads the table of a case.  Returns the first error with its statement, if there is one.
sub load
{
	my ($case) = @_;
	my @statements = setup_of($case);
	my @results = results_of(join '', map { $_ . $mark } @statements) or return 'the session ended';
	return map { $results[$_] =~ /^error/ ? "$results[$_] in " . substr($statements[$_], 0, 200) : () } 0 .. $#results;
}

# Chooses eps and a larger one by the distances in the loaded table.
sub choose_eps
{
	my ($case) = @_;
	my $quantile = $case->{eps} eq 'below' ? 0.3 : min($case->{eps}, 1);
	my ($found) = results_of("SELECT (percentile_disc(ARRAY[$quantile, least($quantile + 0.2, 1)]) WITHIN GROUP (ORDER BY dist))::text FROM d;\n$mark");
	my ($eps, $larger) = ($found // '') =~ /^\{(.*),(.*)\}/ ? ($1, $2) : (1, 1);
	$eps = next_below($eps) if $case->{eps} eq 'below';
	$eps = $larger = 'Infinity' if $case->{eps} eq 'Infinity';
	$eps = 0 if $case->{metric} ne 'inner_product' && $eps < 0;
	# eps must not be -Infinity, which is the distance if an inner product overflows
	@{$case}{qw(eps larger_eps)} = map { $_ eq -9**9**9 || $_ eq '-Infinity' ? '-1.7976931348623157e308' : $_ } $eps, $larger;
	return;
}

# Returns the largest double precision number below a finite or infinite one.
sub next_below
{
	my ($x) = @_;
	return $x if $x == -9**9**9;
	my $bits = unpack('q', pack('d', $x));
	return sprintf '%.17g', $x == 0 ? -4.9406564584124654e-324 : unpack('d', pack('q', $bits + ($x > 0 ? -1 : 1)));
}

# Returns the smallest part of a list for which the function returns true, as far as removing
# consecutive elements reduces the list.
sub reduced
{
	my ($fails, @items) = @_;
	for (my $size = int(@items / 2) || 1; $size >= 1; $size = int($size / 2))
	{
		for (my $i = 0; $i < @items;)
		{
			my @fewer = @items;
			splice @fewer, $i, $size;
			if ($fails->(@fewer)) { @items = @fewer; }
			else { $i += $size; }
		}
	}
	return @items;
}

# Returns a case with the same failure and few rows, dimensions and settings.  It stops after a minute.
sub reduced_case
{
	my ($case, $name) = @_;
	my $end = time + 60;
	my $try = sub {
		return 0 if time > $end;
		my $changed = { %$case, @_ };
		my @checks = grep { $name =~ /^the / || $_->[0] eq $name } checks_of($changed);
		my @names = load($changed) ? 'the setup' : map { $_->[0] } failures_of($changed, @checks);
		$case = $changed if grep { $_ eq $name } @names;
		return $case == $changed;
	};
	# the second time, fewer dimensions may need fewer rows
	for (1, 2)
	{
		reduced(sub { $try->(rows => [@_]) }, @{ $case->{rows} });
		my $rows = $case->{rows};
		reduced(
			sub {
				my @kept = @_;
				return @kept && $try->(dims => scalar @kept, rows => [ map { [ @$_[ 0 .. 2 ], $_->[3] && [ @{ $_->[3] }[@kept] ] ] } @$rows ]);
			}, 0 .. $case->{dims} - 1);
	}
	my %settings = %{ $case->{settings} };
	reduced(sub { my @kept = @_; $try->(settings => { map { $_ => $settings{$_} } @kept }) }, sort keys %settings);
	return $case;
}

# Returns a self-contained script that shows a failure.
sub script_of
{
	my ($case, $name) = @_;
	my ($check) = grep { $_->[0] eq $name } checks_of($case);
	my $script = $alike . reference_functions();
	return join '', $script, setup_of($case), settings_of($case) unless $check;
	$script = ($case->{type} eq 'alike' ? $alike : '') . ($check->[2] =~ /reference_/ ? reference_functions() : '');
	my ($found, $expected) = map { "SELECT * FROM ($_) q ORDER BY q::text;\n" } @{$check}[ 1, 2 ];
	return join '', "CREATE EXTENSION IF NOT EXISTS fasted;\n$script", setup_of($case), settings_of($case),
	  "\n-- $name: these rows\n$found-- are not these:\n" . ($check->[3] ? '' : "$reference_settings\n") . $expected;
}

# Runs the next case.  Returns a report of a failure, if there is one.
sub test_case
{
	if (!@cases)
	{
		@cases = pairwise();
		$run->('VACUUM');
	}
	my $case = pop @cases;
	$count{arrays}++ if !@cases;
	my $description = join ', ', map { "$_ $case->{$_}" } sort keys %$case;
	$count{cases}++;
	$case->{settings} = { map { $_ => $case->{$_} } grep { /^(fasted\.|max_|enable_)/ } keys %$case };
	complete_case($case);
	my ($error) = load($case);
	return if defined $error && $error =~ /^error 57014/;
	choose_eps($case);
	my @failures = defined $error ? [ 'the setup', $error, 'success' ] : failures_of($case, checks_of($case));
	return if !@failures;
	my $name = $failures[0][0];
	$case = reduced_case($case, $name);
	return "$description\nfails: " . join('; ', map { "$_->[0]: " . $_->[1] . ' instead of ' . $_->[2] } @failures) . "\n\n" . script_of($case, $name);
}

1;
