# Sessions write to a table and join it, while its shards move between workers and a worker
# crashes.  Each join shows the rows of a consistent snapshot of each shard (History.pm), or it
# fails with an expected error.
#
#	FASTED_SEED=N				repeats the random choices of a run
#	FASTED_HISTORY_SECONDS=N	duration (default 15, or 200 joins)
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use CitusCluster;
use FastedTest;
use History;
use IPC::Run ();
use List::Util qw(any max shuffle);
use Test::More;
use Time::HiRes qw(CLOCK_MONOTONIC clock_gettime usleep);

my $seed = $ENV{FASTED_SEED} // int(rand(1e9));
my $seconds = $ENV{FASTED_HISTORY_SECONDS} // 15;
my $enough_joins = $ENV{FASTED_HISTORY_SECONDS} ? 1e9 : 200;
srand($seed);
note("FASTED_SEED=$seed repeats the choices of this run, FASTED_HISTORY_SECONDS lengthens it");
alarm 900 + $seconds;

my ($node, @workers) = new_cluster('history');

# Time since the test began, in seconds.
my $origin = clock_gettime(CLOCK_MONOTONIC);
sub now { return clock_gettime(CLOCK_MONOTONIC) - $origin; }

sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }

# --- the table

my ($writers, $clusters, $rows) = (4, 4, 1300);
my $eps = 2**20;                # more than the number of writes

sql('CREATE TABLE items (id int PRIMARY KEY, v real[] NOT NULL)');
sql("SELECT create_distributed_table('items', 'id')");
my %by_shard;
push @{ $by_shard{ $_->[1] } }, $_->[0] for shuffle(map { [ split /\|/ ] } split /\n/,
	sql("SELECT i, get_shard_id_for_distribution_column('items', i) FROM generate_series($clusters + 1, $rows) i"));

# Each writer has a slot in each shard.  A cluster has slots of all shards and of several writers.
my @slots = map { my $shard = $_; map { { writer => $_, shard => $shard } } 0 .. $writers - 1 } sort keys %by_shard;
for my $number (0 .. $#slots)
{
	my $slot = $slots[$number];
	@$slot{qw(cluster fixed loose)} = (($number + int($number / $writers)) % $clusters, splice @{ $by_shard{ $slot->{shard} } }, 0, 2);
}
my @others = sort { $a <=> $b } map { @$_ } values %by_shard;
pop @others if @others % 2;
my @constant = map { [ @others[ 2 * $_, 2 * $_ + 1 ] ] } 0 .. $#others / 2;
my $history = History->new(anchors => { map { $_ => $_ + 1 } 0 .. $clusters - 1 }, slots => \@slots, constant => \@constant);

# Rows of different clusters are four times eps apart.
sub vector { my ($cluster, $version) = @_; return sprintf("'{%d,%d}'", 4 * $eps * $cluster, $version); }
sql('INSERT INTO items VALUES ' . join(', ',
		map({ sprintf('(%d, %s)', $_ + 1, vector($_, 0)) } 0 .. $clusters - 1),
		map({ my $slot = $_; map { "($_, " . vector($slot->{cluster}, 1) . ')' } @$slot{qw(fixed loose)} } @slots),
		map({ my $pair = $_; map { "($_, " . vector(-1 - $pair->[0], 0) . ')' } @$pair } @constant)));

# --- clients: psql processes, whose results are collected as they arrive

package Client;

# Options: settings, SQL commands for the begin of the session.
sub new
{
	my ($class, $node, %options) = @_;
	my $self = bless { in => "\\set VERBOSITY verbose\n$options{settings};\n", %options }, $class;
	$self->{run} = IPC::Run::start([ 'psql', '-XqAt', '-d', $node->connstr('postgres') ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err});
	return $self;
}

# Sends commands.  A function is called with their SQLSTATE, output, and messages.
sub send
{
	my ($self, $sql, $take) = @_;
	$self->{out} = $self->{err} = '';
	$self->{take} = $take;
	$self->{in} .= "$sql;\n\\set state :SQLSTATE\n\\if :ERROR\nROLLBACK;\n\\endif\n\\echo state :state\n";
	$self->{run}->pump_nb;
	return;
}

# Returns true if the client waits for commands.
sub is_idle
{
	my ($self) = @_;
	my $take = $self->{take} or return 1;
	die "a client has ended: $self->{err}" unless $self->{run}->pumpable;
	$self->{run}->pump_nb;
	return 0 unless substr($self->{out}, -12) =~ /state (\w{5})\n\z/;
	my $state = $1;
	# messages were written before this line, but to another pipe
	$self->{run}->pump_nb for 1 .. 2;
	delete $self->{take};
	$take->($state, @$self{qw(out err)});
	return !$self->{take};
}

package main;

my (%joins, %errors, @unexpected, @wrong, $crashed);
my ($commits, $moves) = (0, 0);

# Number of writes that may begin.  They have pauses, so that some divided joins find no concurrent writes.
my $budget = 0;

# Counts an error.  A join may fail because of concurrent writes; and any statement, once a worker
# has crashed, because connections to it are lost or refused.  Moves may fail for reasons of Citus, such as
# a former shard that is still being read.  In a transaction that has read a shard before it moved, Citus
# may report a connection as not open.
sub take_error
{
	my ($what, $state, $messages) = @_;
	$errors{"$what $state"}++;
	return if $what eq 'move' || ($crashed && $state =~ /^(?:08|57P0)/)
	  || ($what ne 'write' && $state eq '40001')
	  || ($what eq 'twice' && $messages =~ /08006: connection to the remote node .* connection not open/);
	push @unexpected, "$what, $state: $messages";
	return;
}

# Checks the rows of a statement, which begin with its tag.
sub check_join
{
	my ($name, $form, $begin, $output, %join) = @_;
	$join{rows} = [ map { [ (split /\|/)[ 1 .. 4 ] ] } grep { /^$form\|/ } split /\n/, $output ];
	my $problem = $history->check({ form => $form, begin => $begin, %join });
	$joins{$name}++;
	push @wrong, sprintf("%s from %.4f to %.4f:\n%s", $name, $begin, now(), $problem) if $problem;
	return;
}

sub transaction { return join('\;', 'BEGIN', @_, 'COMMIT'); }

my $pairs = "SELECT 'pairs', * FROM fasted_self_join('items', 'v', $eps)";
my %queries = (
	pairs => $pairs,
	nearest => "SELECT 'nearest', * FROM fasted_knn_join('items', 'v', 'items', 'v', 20, max_distance => $eps)",
	kept => "SELECT 'kept', * FROM fasted_keep_one('items', 'v', $eps)",
	neighbors => "SELECT 'neighbors', * FROM fasted_neighbors('items', 'v', $eps)",
	clusters => "SELECT 'clusters', * FROM fasted_cluster('items', 'v', $eps)");
my @forms = (('pairs') x 3, ('nearest') x 2, ('kept') x 2, 'neighbors', 'clusters', 'twice');

# Replaces the rows of one of the writer's slots, or of two; in a seventh of the transactions, joins
# them before the end.
sub write_rows
{
	my ($client) = @_;
	return if $budget <= 0;
	$budget--;
	my @mine = shuffle(grep { $slots[$_]{writer} == $client->{writer} } 0 .. $#slots);
	# most writes do not change the number of rows
	my %loose = map { my $last = $slots[$_]{writes}[-1]{loose}{$_}; $_ => rand(3) < 1 ? 1 - $last : $last } @mine[ 0 .. int(rand(4)) == 0 ];
	my ($commit, $join) = (rand(10) >= 1, rand(7) < 1);
	my $write = $history->begin_write(now(), %loose);
	$history->roll_back($write) unless $commit;
	my @commands = 'BEGIN';
	for my $number (sort { $a <=> $b } keys %loose)
	{
		my ($fixed, $loose) = @{ $slots[$number] }{qw(fixed loose)};
		my $v = vector($slots[$number]{cluster}, $write->{number});
		push @commands, "UPDATE items SET v = $v WHERE id = $fixed",
		  $loose{$number} ? "INSERT INTO items VALUES ($loose, $v) ON CONFLICT (id) DO UPDATE SET v = $v" : "DELETE FROM items WHERE id = $loose";
	}
	push @commands, $pairs if $join;
	$client->send(join('\;', @commands, $commit ? 'COMMIT' : 'ROLLBACK'), sub {
		my ($state, $output, $messages) = @_;
		return take_error('write', $state, $messages) if $state ne '00000';
		# with a WARNING, a node may not yet have committed
		if ($commit && $messages !~ /WARNING/) { $history->acknowledge($write, now()); $commits++; }
		check_join('in a transaction that writes', 'pairs', $write->{begin}, $output, own => $write) if $join;
	});
	return;
}

sub join_rows
{
	my ($client) = @_;
	my $form = $forms[ rand @forms ];
	my $alone = $form ne 'twice' && rand(4) < 1;
	my $sql = $form eq 'twice'
	  ? "BEGIN ISOLATION LEVEL REPEATABLE READ\\;SET LOCAL citus.max_adaptive_executor_pool_size = 1\\;$pairs\\;" . ($pairs =~ s/pairs/again/r) . '\;COMMIT'
	  : $alone ? transaction('SET LOCAL fasted.distribute = off', $queries{$form}) : $queries{$form};
	my $begin = now();
	$client->send($sql, sub {
		my ($state, $output, $messages) = @_;
		$budget += rand(2) < 1 ? int(rand(8)) : 0;
		return take_error($form . ($alone ? ' alone' : ''), $state, $messages) if $state ne '00000';
		check_join($form . ($alone ? ', alone' : ''), $form eq 'twice' ? 'pairs' : $form, $begin, $output);
		return unless $form eq 'twice';
		my %count;
		/^(pairs|again)\|(.*)/ and $count{$2} += $1 eq 'pairs' ? 1 : -1 for split /\n/, $output;
		my @differ = grep { $count{$_} } sort keys %count;
		push @wrong, join("\n", 'two joins in a transaction that is REPEATABLE READ differ in these pairs:', splice(@differ, 0, 10)) if @differ;
	});
	return;
}

# Moves a shard from a worker that has another one.
sub move_shard
{
	my ($client) = @_;
	$client->send("SELECT 'placement', shardid, nodeport FROM pg_dist_shard_placement WHERE shardid IN (" . join(', ', keys %by_shard) . ')', sub {
		my ($state, $output) = @_;
		my %shards;
		push @{ $shards{ (split /\|/)[2] } }, (split /\|/)[1] for $output =~ /^(placement.*)$/mg;
		my ($from) = shuffle(grep { @{ $shards{$_} } > 1 } keys %shards);
		my ($to) = shuffle(grep { $_ != $from } map { $_->port } @workers);
		$client->send("SELECT citus_move_shard_placement($shards{$from}[0], '127.0.0.1', $from, '127.0.0.1', $to, 'block_writes')", sub {
			my ($state, undef, $messages) = @_;
			if ($state eq '00000') { $moves++; } else { take_error('move', $state, $messages); }
		});
	});
	return;
}

# Without pruning, the rows of a cluster are in several tiles, which different workers join.
my $settings = 'SET client_min_messages = warning';
my @clients = (
	map({ Client->new($node, settings => $settings, work => \&write_rows, writer => $_) } 0 .. $writers - 1),
	map({ Client->new($_->[0], settings => "$settings; SET fasted.prune = $_->[1]", work => \&join_rows) }
		[ $node, 'off' ], [ $node, 'auto' ], [ $workers[0], 'off' ]),
	Client->new($node, settings => $settings, work => \&move_shard));
my $recovery = Client->new($node, settings => $settings);

sub sum { my $sum = 0; $sum += $_ for @_; return $sum; }
sub ended { return sum(values %joins, values %errors); }

my $begin = now();
my $part = 0;        # of the run
my $next_crash = 1 / 3;
my ($victim, $errors_before, $down_since);

# Stops a worker after a third of the run, and later once in 20 seconds.  Starts it after five errors.
sub crash
{
	my $errors = sum(values %errors);
	if ($victim && ($errors >= $errors_before + 5 || now() > $down_since + 5))
	{
		start_node($victim);
		$victim = undef;
		$next_crash = $part + 20 / $seconds;
	}
	elsif (!$victim && $part >= $next_crash)
	{
		$victim = $workers[ 1 + int(rand(2)) ];
		$victim->stop('immediate');
		($errors_before, $down_since, $crashed) = ($errors, now(), 1);
	}
	return;
}

# Completes transactions that were prepared when a worker crashed, since their rows remain locked.
my $recovered_at = 0;
sub recover_prepared
{
	return unless $crashed && $recovery->is_idle && now() > $recovered_at + 1;
	$recovered_at = now();
	$recovery->send('SELECT recover_prepared_transactions()', sub { });
	return;
}

while ($part < 1 || $victim || ($moves == 0 && $part < 4) || any { $_->{take} } @clients, $recovery)
{
	my $going = $part < 1 || ($moves == 0 && $part < 4);
	$part = max((now() - $begin) / $seconds, ended() / $enough_joins);
	crash() if $going || $victim;
	recover_prepared();
	for my $client (@clients) { $client->{work}->($client) if $client->is_idle && $going; }
	usleep(500);
}
sub numbers { my ($counts) = @_; return join(', ', map { "$_: $counts->{$_}" } sort keys %$counts); }
diag(sprintf('%.1f s, %d of %d writes committed, %d moves; joins: %s; errors: %s', now() - $begin, $commits,
		scalar @{ $history->{writes} }, $moves, numbers(\%joins), numbers(\%errors)));

# --- without concurrent writes, each join succeeds

sql('SELECT recover_prepared_transactions()');
$_->{run}->finish for map { $_->{in} .= "\\q\n"; $_ } @clients, $recovery;
my $output;
for my $form (sort keys %queries)
{
	my $now = now();
	$output = sql($queries{$form});
	check_join("$form at the end", $form, $now, $output);
	check_join("$form at the end, alone", $form, $now, sql("SET fasted.distribute = off; $queries{$form}"));
}
is(join("\n\n", @wrong), '', "each join shows consistent rows, FASTED_SEED=$seed");
is(join("\n", @unexpected), '', 'all errors are expected');

# --- wrong results are detected

my @right = map { [ (split /\|/)[ 1 .. 3 ] ] } split /\n/, sql($queries{pairs});
my ($slot) = grep { @{ $slots[$_]{writes} } > 1 && !$slots[$_]{writes}[-1]{rolled_back} } 0 .. $#slots;
my ($fixed, $loose, $anchor) = ($slots[$slot]{fixed}, $slots[$slot]{loose}, $slots[$slot]{cluster} + 1);

sub detects
{
	my ($name, $expected, $rows, %join) = @_;
	like($history->check({ form => 'pairs', begin => now(), rows => $rows, %join }), $expected, "detected: $name");
	return;
}

# The rows in which this row comes from another write.
sub from_write
{
	my ($id, $number) = @_;
	my %version = (map({ $_->[0] == $anchor ? ($_->[1] => $_->[2]) : () } @right), $anchor => 0, $id => $number);
	return [ map { my $row = $_; (any { $_ == $id } @$row[0, 1]) ? [ @$row[0, 1], abs($version{ $row->[0] } - $version{ $row->[1] }) ] : $row } @right ];
}
detects('a pair is missing', qr/pair \($constant[0][0], \d+\) at a distance of 0 is missing/, [ grep { $_->[0] != $constant[0][0] } @right ]);
detects('a pair is returned twice', qr/is returned twice/, [ @right, $right[0] ]);
detects('a pair that should not exist', qr/should not exist/, [ @right, [ 1, $constant[0][0], 5 ] ]);
detects('a row is missing', qr/the fixed row is missing\nwrites of slot/, [ grep { !any { $_ == $fixed } @$_[ 0, 1 ] } @right ]);
detects('an older row', qr/the fixed row comes from write 1, and|shows write 1, not write \d+, acknowledged before the join began/, from_write($fixed, 1));
detects('a distance that no write explains', qr/comes from no write of the slot: 0.5/, from_write($fixed, 0.5));

my $last = $slots[$slot]{writes}[-1];
my $later = $history->begin_write(now(), $slot => $last->{loose}{$slot});
detects('a write that has just begun need not be seen', qr/^$/, \@right);
detects('a transaction does not see its own write', qr/does not see its own write/, \@right, own => $later);
my ($other) = grep { $slots[$_]{shard} == $slots[$slot]{shard} && $_ != $slot } 0 .. $#slots;
my $join = { begin => now() };
$history->acknowledge($later, now());
detects('a write need not be seen if it ended after the join began', qr/^$/, \@right, %$join);
my ($second) = $history->begin_write(now(), $other => 0);
@right = grep { !any { $_ == $slots[$other]{loose} } @$_[ 0, 1 ] } @right;
$anchor = $slots[$other]{cluster} + 1;
detects('a write is seen, but not one before it', qr/not write $later->{number}, acknowledged before write $second->{number} began/,
	from_write($slots[$other]{fixed}, $second->{number}), %$join);
$history->roll_back($second);
detects('a write that was rolled back', qr/which was rolled back/, from_write($slots[$other]{fixed}, $second->{number}), %$join);

done_testing();
