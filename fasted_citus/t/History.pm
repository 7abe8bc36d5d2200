# A history of the writes to a distributed table, and checks of joins that ran at the same time.
#
# A slot is a pair of rows in one shard: the fixed row always exists, the loose row only at times.
# A write replaces both rows of one or more slots.  Its number is the second coordinate of their
# vectors, so that a row shows which write it comes from.  A cluster consists of the rows of
# several slots and a constant row, its anchor, whose second coordinate is 0.  All rows of a
# cluster are within eps of each other, so a row's distance from the anchor is the number of its
# write.  All other rows of the table are constant pairs of equal vectors.
#
# Each slot has a single writer, so the order of its writes is known.  Citus reads each shard with
# a snapshot of its own.  So for each shard, the rows that a join shows must be the contents of
# the shard at some time during the join:
#	- both rows of a slot come from the same write, which was not rolled back
#	- if a write was acknowledged before the join began, that write or a later one is shown
#	- the same holds if a write was acknowledged before another write began that is shown
# There are no further conditions: writes that overlap may have been committed in any order.
package History;

use strict;
use warnings;
use List::Util qw(all max);

# Parameters: anchors, the anchor's id by cluster, less than the ids of the cluster's other rows;
# slots, an array of hashes with cluster, shard, and the ids fixed and loose; and constant, an
# array of the pairs of equal rows [id, larger id].  Write 1 has created all rows of the slots.
sub new
{
	my ($class, %layout) = @_;
	my $self = bless { %layout, writes => [], members => {}, cluster_of => {} }, $class;
	my $slots = $self->{slots};
	$slots->[$_]{name} = "slot $_ (shard $slots->[$_]{shard}, fixed row $slots->[$_]{fixed}, loose row $slots->[$_]{loose})" for 0 .. $#$slots;
	$self->{cluster_of}{ $_->{fixed} } = $self->{cluster_of}{ $_->{loose} } = $_->{cluster} for @$slots;
	$self->acknowledge($self->begin_write(0, map { $_ => 1 } 0 .. $#$slots), 0);
	return $self;
}

# Records the begin of a write: for each slot whether the loose row exists after it.
sub begin_write
{
	my ($self, $time, %loose) = @_;
	my $write = { number => @{ $self->{writes} } + 1, begin => $time, loose => \%loose };
	push @{ $self->{writes} }, $write;
	push @{ $self->{slots}[$_]{writes} }, $write for keys %loose;
	return $write;
}

# A write that is neither acknowledged nor rolled back may take effect at any time after its begin.
sub acknowledge { my ($self, $write, $time) = @_; $write->{end} = $time; return $write; }
sub roll_back { my ($self, $write) = @_; $write->{rolled_back} = 1; return $write; }

# --- which rows a result shows: versions by id, and what is wrong irrespective of the history

# Rows of fasted_self_join: id_a, id_b, dist.
sub versions_in_pairs
{
	my ($self, $rows) = @_;
	my (%dist, @wrong);
	for my $row (@$rows)
	{
		push @wrong, "pair ($row->[0], $row->[1]) is returned twice" if exists $dist{"$row->[0] $row->[1]"};
		$dist{"$row->[0] $row->[1]"} = $row->[2];
	}
	my $take = sub {
		my ($low, $high, $expected) = @_;
		my $dist = delete $dist{"$low $high"};
		return if defined $dist && $dist == $expected;
		push @wrong, "pair ($low, $high) at a distance of $expected "
		  . (defined $dist ? "has distance $dist" : 'is missing');
	};
	$take->(@$_, 0) for @{ $self->{constant} };
	my %version = map { $_ => 0 } values %{ $self->{anchors} };
	my %members = map { $_ => [$self->{anchors}{$_}] } keys %{ $self->{anchors} };
	for my $id (sort { $a <=> $b } keys %{ $self->{cluster_of} })
	{
		my $cluster = $self->{cluster_of}{$id};
		$version{$id} = $dist{"$self->{anchors}{$cluster} $id"};
		next unless defined $version{$id};
		$take->($_, $id, abs($version{$_} - $version{$id})) for @{ $members{$cluster} };
		push @{ $members{$cluster} }, $id;
	}
	push @wrong, "pair ($_) should not exist" for sort keys %dist;
	return (\%version, @wrong);
}

# Rows of fasted_knn_join of the table with itself: id_a, id_b, dist, rank.
sub versions_in_nearest
{
	my ($self, $rows) = @_;
	my (%lists, %both, @wrong);
	push @{ $lists{ $_->[0] } }, $_ for @$rows;
	for my $id (keys %lists)
	{
		my @list = sort { $a->[3] <=> $b->[3] } @{ $lists{$id} };
		push @wrong, "the ranks or distances of the neighbours of row $id are not in order"
		  unless all { $list[$_][3] == $_ + 1 && ($_ == 0 || $list[$_][2] >= $list[ $_ - 1 ][2]) } 0 .. $#list;
	}
	for my $row (@$rows)
	{
		my ($low, $high) = sort { $a <=> $b } @$row[0, 1];
		push @{ $both{"$low $high $row->[2]"} }, $row->[0];
	}
	push @wrong, "pair ($_) is not returned for each of its rows" for grep { @{ $both{$_} } != 2 } keys %both;
	my ($version, @pairs_wrong) = $self->versions_in_pairs([ grep { $_->[0] < $_->[1] } @$rows ]);
	return ($version, @wrong, @pairs_wrong);
}

# Rows of fasted_keep_one: id, kept, dist.  An anchor is kept in the place of all rows of its cluster.
sub versions_in_kept
{
	my ($self, $rows) = @_;
	my (%version, @wrong);
	my %expected = (%{ $self->{cluster_of} });
	$_ = $self->{anchors}{$_} for values %expected;
	my %distance = map { $_ => 0 } values %{ $self->{anchors} }, map { @$_ } @{ $self->{constant} };
	$expected{$_} = $_ for values %{ $self->{anchors} };
	@expected{@$_} = ($_->[0]) x 2 for @{ $self->{constant} };
	for my $row (@$rows)
	{
		my ($id, $kept, $dist) = @$row;
		push @wrong, "row $id is returned twice" if exists $version{$id};
		push @wrong, "row $id has the representative $kept at a distance of $dist"
		  if $kept != ($expected{$id} // -1) || $dist != ($distance{$id} // $dist);
		$version{$id} = $dist;
	}
	push @wrong, map { "row $_ is missing" } grep { !exists $version{$_} } keys %distance;
	return (\%version, @wrong);
}

# The clusters that the rows shown belong to, a constant pair being a cluster too: ids by cluster.
sub clusters_shown
{
	my ($self, $rows) = @_;
	my (%shown, %clusters, @wrong);
	my %cluster_of = (%{ $self->{cluster_of} }, reverse %{ $self->{anchors} });
	@cluster_of{@$_} = ("constant $_->[0]") x 2 for @{ $self->{constant} };
	for my $row (@$rows)
	{
		push @wrong, "row $row->[0] is returned twice" if $shown{ $row->[0] }++;
		push @{ $clusters{ $cluster_of{ $row->[0] } // 'none' } }, $row;
	}
	push @wrong, map { "row $_ is missing" }
	  grep { !$shown{$_} } values %{ $self->{anchors} }, map { @$_ } @{ $self->{constant} };
	push @wrong, "row $_->[0] should not exist" for @{ delete $clusters{none} // [] };
	return (\%shown, \%clusters, @wrong);
}

# Rows of fasted_neighbors: id, neighbors.  Returns the ids shown in place of versions.
sub ids_in_neighbors
{
	my ($self, $rows) = @_;
	my ($shown, $clusters, @wrong) = $self->clusters_shown($rows);
	for my $cluster (values %$clusters)
	{
		push @wrong, "row $_->[0] has $_->[1] neighbours in a cluster of " . @$cluster . ' rows'
		  for grep { $_->[1] != @$cluster - 1 } @$cluster;
	}
	return ($shown, @wrong);
}

# Rows of fasted_cluster: id, cluster, core.  Returns the ids shown in place of versions.
sub ids_in_clusters
{
	my ($self, $rows) = @_;
	my ($shown, $clusters, @wrong) = $self->clusters_shown($rows);
	my %taken;
	for my $cluster (values %$clusters)
	{
		my %numbers = map { $_->[1] => 1 } @$cluster;
		push @wrong, 'rows ' . join(', ', map { $_->[0] } @$cluster) . ' should be one cluster'
		  if keys %numbers != 1 || grep { $taken{$_}++ } keys %numbers;
	}
	return ($shown, @wrong);
}

# --- the conditions

# Returns true if no join but one in the write's own transaction may show it.
sub is_hidden
{
	my ($write, $join) = @_;
	return $write->{rolled_back} && $write != ($join->{own} // 0);
}

# The writes of a slot that the join may show, the newest first: those that had not been replaced
# before it began.
sub possible_writes
{
	my ($self, $number, $join) = @_;
	my @possible;
	for my $write (reverse @{ $self->{slots}[$number]{writes} })
	{
		next if is_hidden($write, $join);
		push @possible, $write;
		last if defined $write->{end} && $write->{end} < $join->{begin};
	}
	return @possible;
}

# Finds the write that a slot's rows come from.
sub find_write
{
	my ($self, $number, $version, $join) = @_;
	my $slot = $self->{slots}[$number];
	my ($fixed, $loose) = @$version{ @$slot{qw(fixed loose)} };
	return (undef, "$slot->{name}: the fixed row is missing") unless defined $fixed;
	my ($write) = $fixed =~ /^\d+$/ && $fixed > 0 ? $self->{writes}[ $fixed - 1 ] : ();
	return (undef, "$slot->{name}: the fixed row comes from no write of the slot: $fixed")
	  unless defined $write && exists $write->{loose}{$number};
	return (undef, "$slot->{name}: the fixed row comes from write $fixed, which was rolled back")
	  if is_hidden($write, $join);
	return (undef, "$slot->{name}: the fixed row comes from write $fixed, and the loose row "
		  . (defined $loose ? "from write $loose" : 'does not exist'))
	  if defined $loose ? $loose != $fixed || !$write->{loose}{$number} : $write->{loose}{$number};
	return ($write);
}

# Returns the first later write of the slot that was acknowledged before a time.
sub acknowledged_before
{
	my ($self, $number, $write, $time) = @_;
	my $found;
	for my $later (reverse @{ $self->{slots}[$number]{writes} })
	{
		last if $later->{number} <= $write->{number};
		$found = $later if !$later->{rolled_back} && defined $later->{end} && $later->{end} < $time;
	}
	return $found;
}

sub check_versions
{
	my ($self, $version, $join) = @_;
	my (%shown, @wrong);
	for my $number (0 .. $#{ $self->{slots} })
	{
		my ($write, $problem) = $self->find_write($number, $version, $join);
		push @wrong, [ $problem, $number ] unless $write;
		push @wrong, [ "$self->{slots}[$number]{name}: the transaction does not see its own write $join->{own}{number}", $number ]
		  if $write && $join->{own} && exists $join->{own}{loose}{$number} && $write != $join->{own};
		$shown{ $self->{slots}[$number]{shard} }{$number} = $write if $write;
	}
	for my $writes (values %shown)
	{
		my ($last) = sort { $b->{begin} <=> $a->{begin} } values %$writes;
		for my $number (sort { $a <=> $b } keys %$writes)
		{
			my $missed = $self->acknowledged_before($number, $writes->{$number}, max($join->{begin}, $last->{begin}));
			push @wrong, [ "$self->{slots}[$number]{name} shows write $writes->{$number}{number}, not write $missed->{number}, acknowledged before "
				  . ($missed->{end} < $join->{begin} ? 'the join began' : "write $last->{number} began, which the shard shows"), $number ]
			  if $missed;
		}
	}
	return @wrong;
}

# With ids only, a slot must show the rows that one of its possible writes has left.
sub check_ids
{
	my ($self, $shown, $join) = @_;
	my @wrong;
	for my $number (0 .. $#{ $self->{slots} })
	{
		my $slot = $self->{slots}[$number];
		push @wrong, [ "$slot->{name}: the fixed row is " . ($shown->{ $slot->{fixed} } ? 'shown' : 'missing')
			  . ' and the loose row is ' . ($shown->{ $slot->{loose} } ? 'shown' : 'missing'), $number ]
		  unless $shown->{ $slot->{fixed} } && grep { $_->{loose}{$number} == ($shown->{ $slot->{loose} } // 0) } $self->possible_writes($number, $join);
	}
	return @wrong;
}

my %forms = (
	pairs => [ \&versions_in_pairs, \&check_versions ],
	nearest => [ \&versions_in_nearest, \&check_versions ],
	kept => [ \&versions_in_kept, \&check_versions ],
	neighbors => [ \&ids_in_neighbors, \&check_ids ],
	clusters => [ \&ids_in_clusters, \&check_ids ]);

# Checks a join that has ended: a hash with form, begin, rows (an array of arrays), and own, the
# write of its own transaction, if any.  Returns a description of what is wrong, with the writes
# of the slots concerned; or an empty string.
sub check
{
	my ($self, $join) = @_;
	my ($read, $conditions) = @{ $forms{ $join->{form} } };
	my ($shown, @wrong) = $read->($self, $join->{rows});
	@wrong = map { [$_] } @wrong;
	push @wrong, $conditions->($self, $shown, $join);
	my $count = @wrong;
	splice @wrong, 10;
	my %slots = map { $_->[1] => 1 } grep { defined $_->[1] } @wrong;
	return join("\n", map({ $_->[0] } @wrong), $count > 10 ? "and $count in total" : (),
		map { $self->recent_writes($_, $join) } sort { $a <=> $b } keys %slots);
}

# Describes the writes of a slot from the one before the oldest that the join may show.
sub recent_writes
{
	my ($self, $number, $join) = @_;
	my $slot = $self->{slots}[$number];
	my $oldest = ($self->possible_writes($number, $join))[-1]{number};
	my @older = grep { $_->{number} < $oldest } @{ $slot->{writes} };
	my @writes = grep { $_->{number} >= $oldest } @{ $slot->{writes} };
	return "writes of $slot->{name}:", map {
		sprintf("\twrite %d, from %.4f to %s: the loose row %s%s", $_->{number}, $_->{begin},
			defined $_->{end} ? sprintf('%.4f', $_->{end}) : 'an unknown time',
			$_->{loose}{$number} ? 'exists' : 'is deleted', $_->{rolled_back} ? '; rolled back' : '')
	} (@older ? $older[-1] : ()), @writes;
}

1;
