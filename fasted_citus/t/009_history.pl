# Sessions write to a table and join it, while its shards move between workers and a worker
# crashes.  Each join shows the rows of a consistent snapshot of each shard (History.pm), or it
# fails with an expected error.
#
#	FASTED_SEED=N				makes other random choices than those of this revision
#	FASTED_HISTORY_SECONDS=N	duration, instead of 200 joins
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../../test/t";
use CitusCluster;
use FastedTest;
use History;
use IPC::Run ();
use List::Util qw(any shuffle);
use Test::More;
use Time::HiRes qw(CLOCK_MONOTONIC clock_gettime usleep);

my $seed = random_seed();
my $seconds = $ENV{FASTED_HISTORY_SECONDS};
alarm 900 + ($seconds // 0);

# --- wrong results are detected, and right ones are not

my $sample = History->new(anchors => { 0 => 1 }, constant => [ [ 8, 9 ] ],
	slots => [ map { { cluster => 0, shard => $_->[0], fixed => $_->[1], loose => $_->[2] } } [ 'x', 2, 3 ], [ 'x', 4, 5 ], [ 'y', 6, 7 ] ]);
$sample->acknowledge($sample->begin_write(1, 0 => 1), 2);    # write 2
$sample->begin_write(3, 1 => 0, 2 => 1);                     # write 3 has no known end
$sample->roll_back($sample->begin_write(4, 0 => 0));         # write 4
$sample->acknowledge($sample->begin_write(5, 0 => 1), 7);    # write 5
$sample->acknowledge($sample->begin_write(8, 1 => 1), 9);    # write 6

# The result of fasted_self_join if the rows 2, 3 and so on come from these writes, or do not exist.
sub sample
{
	my %version = (1 => 0, map { defined $_[$_] ? ($_ + 2 => $_[$_]) : () } 0 .. $#_);
	my @ids = sort keys %version;
	return [ [ 8, 9, 0 ], map { my $low = $_; map { [ $low, $_, abs($version{$low} - $version{$_}) ] } grep { $_ > $low } @ids } @ids ];
}

sub detects
{
	my ($name, $expected, $rows, %join) = @_;
	like($sample->check({ form => 'pairs', begin => 6, rows => $rows, %join }), $expected, "check: $name");
	return;
}

my $right = sample(5, 5, 3, undef, 3, 3);
my @both = map { $_, [ @$_[ 1, 0, 2 ] ] } @$right;
my %nearest;
push @{ $nearest{ $_->[0] } }, $_ for sort { $a->[2] <=> $b->[2] } @both;
my @nearest = map { my $list = $_; map { [ @{ $list->[$_] }, $_ + 1 ] } 0 .. $#$list } values %nearest;
my @kept = ([ 1, 1, 0 ], [ 8, 8, 0 ], [ 9, 8, 0 ], map { [ $_->[1], 1, $_->[2] ] } grep { $_->[0] == 1 } @$right);
my @ids = map { $_->[0] } @kept;
my @counts = map { [ $_, $_ < 8 ? 5 : 1 ] } @ids;
my @numbers = map { [ $_, $_ < 8 ? 0 : 1 ] } @ids;

detects('right', qr/^$/, $right);
detects('before a write that ends later', qr/^$/, sample(2, 2, 3, undef, 3, 3));
detects('without a write of unknown end', qr/^$/, sample(5, 5, 1, 1, 1, 1));
detects('different snapshots of two shards', qr/^$/, sample(5, 5, 3, undef, 1, 1));
detects('nearest rows', qr/^$/, \@nearest, form => 'nearest');
detects('representatives', qr/^$/, \@kept, form => 'kept');
detects('neighbours', qr/^$/, \@counts, form => 'neighbors');
detects('clusters', qr/^$/, \@numbers, form => 'clusters');
detects('a transaction sees its own write', qr/^$/, sample(4, undef, 1, 1, 1, 1), own => $sample->{writes}[3]);
detects('a transaction does not see its own write', qr/does not see its own write 4/, $right, own => $sample->{writes}[3]);
detects('a pair is missing', qr/pair \(4, 7\) at a distance of 0 is missing/, [ grep { "@$_[0, 1]" ne '4 7' } @$right ]);
detects('a constant pair is missing', qr/pair \(8, 9\) .* is missing/, [ @$right[ 1 .. $#$right ] ]);
detects('a pair is returned twice', qr/pair \(8, 9\) is returned twice/, [ @$right, $right->[0] ]);
detects('a pair that should not exist', qr/pair \(1 8\) should not exist/, [ @$right, [ 1, 8, 3 ] ]);
detects('a wrong distance', qr/pair \(2, 3\) at a distance of 0 has distance 1/, [ map { "@$_[0, 1]" eq '2 3' ? [ 2, 3, 1 ] : $_ } @$right ]);
detects('a row is lost', qr/the fixed row is missing\nwrites of slot 0 .*write 5, from 5/s, sample(undef, 5, 3, undef, 3, 3));
detects('rows of two writes', qr/from write 5, and the loose row from write 2/, sample(5, 2, 3, undef, 3, 3));
detects('a row that was deleted', qr/from write 3, and the loose row from write 1/, sample(5, 5, 3, 1, 3, 3));
detects('a row that was not written', qr/from no write of the slot: 2/, sample(5, 5, 2, 2, 3, 3));
detects('a write that was rolled back', qr/from write 4, which was rolled back/, sample(4, undef, 3, undef, 3, 3));
detects('an acknowledged write is not seen', qr/write 1, not write 2, acknowledged before the join began/, sample(1, 1, 3, undef, 3, 3));
detects('a write is seen, but not one before it', qr/write 2, not write 5, acknowledged before write 6 began/, sample(2, 2, 6, 6, 3, 3));
detects('a neighbour is missing', qr/row 2 has 4 neighbours/, [ map { $_->[0] == 2 ? [ 2, 4 ] : $_ } @counts ], form => 'neighbors');
detects('two clusters', qr/should be one cluster/, [ map { $_->[0] == 2 ? [ 2, 2 ] : $_ } @numbers ], form => 'clusters');
detects('a row is deleted too early', qr/the fixed row is shown and the loose row is missing/, [ grep { $_->[0] != 3 } @numbers ], form => 'clusters');

# --- the cluster

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

# Counts an error.  A join may fail because of concurrent writes, and a write because of a deadlock
# with a move.  Once a worker has crashed, connections to it may be lost or refused; Citus reports some of
# those that are lost as internal errors.  Moves may fail for reasons of Citus, for example because a
# former shard is still being read.
#
# Citus remembers by the number of a placement which connection has read it in this transaction, and a
# moved shard keeps this number.  So Citus may use the connection to the former node for both
# nodes, which fails: "connection not open".
sub take_error
{
	my ($what, $state, $messages) = @_;
	$errors{"$what $state"}++;
	return if $what eq 'move'
	  || ($crashed && ($state =~ /^(?:08|57P0)/ || $messages =~ /XX000: (?:server closed the connection|failure on connection marked)/))
	  || $state eq ($what eq 'write' ? '40P01' : '40001')
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
	  : $alone ? "BEGIN\\;SET LOCAL fasted_citus.distribute = off\\;$queries{$form}\\;COMMIT" : $queries{$form};
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

# Stops a worker after a third of the run, and in a long run once in 20 seconds.  Starts it after five errors.
sub crash
{
	my $errors = sum(values %errors);
	if ($victim && ($errors >= $errors_before + 5 || now() > $down_since + 5))
	{
		start_node($victim);
		$victim = undef;
		$next_crash = $part + ($seconds ? 20 / $seconds : 1);
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
	$part = $seconds ? (now() - $begin) / $seconds : ended() / 200;
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
for my $form (sort keys %queries)
{
	my $now = now();
	check_join("$form at the end", $form, $now, sql($queries{$form}));
	check_join("$form at the end, alone", $form, $now, sql("SET fasted_citus.distribute = off; $queries{$form}"));
}
is(join("\n\n", @wrong), '', "each join shows consistent rows, FASTED_SEED=$seed");
is(join("\n", @unexpected), '', 'all errors are expected');

done_testing();
