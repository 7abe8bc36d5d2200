# A psql session that is sent statements and polled; the test never waits for it.
package SoakSession;

use strict;
use warnings;
use IPC::Run ();
use Time::HiRes qw(usleep);

my $marks = 0;

sub new
{
	my ($class, $node) = @_;
	my $self = bless { node => $node }, $class;
	$self->start;
	return $self;
}

sub start
{
	my ($self) = @_;
	@{$self}{qw(in out err query answer pid idle)} = ('', '', '', 'none', undef, 0, 0);
	my $connstr = $self->{node}->connstr('postgres');
	$self->{run} = eval {
		IPC::Run::start([ 'psql', '-X', '-q', '-A', '-t', '-d', $connstr, '-v', 'VERBOSITY=verbose' ],
			'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err});
	};
	$self->send('SELECT pg_backend_pid()');
	$self->{starting} = 1;
	return;
}

sub send
{
	my ($self, @statements) = @_;
	$self->{mark} = 'done ' . ++$marks;
	$self->{in} .= join(";\n", @statements) . ";\n\\echo $self->{mark}\n";
	eval { $self->{run}->pump_nb };
	return;
}

# settings and query; the answer that is expected unless there is an error
sub ask
{
	my ($self, $settings, $query, $answer) = @_;
	@{$self}{qw(out err query answer idle)} = ('', '', $query, $answer, 0);
	$self->send('ROLLBACK', $settings, $query);
	return;
}

# Returns whether there is an answer or psql has ended.  {idle}: it can be sent statements.
sub is_done
{
	my ($self) = @_;
	return 1 if $self->{idle};
	my $alive = eval { $self->{run}->pump_nb; $self->{run}->pumpable } // 0;
	if ($self->{out} =~ s/^\Q$self->{mark}\E\n//m)
	{
		chomp $self->{out};
		$self->{idle} = 1;
		if ($self->{starting})
		{
			$self->{pid} = $self->{out};
			$self->{starting} = 0;
			$self->{answer} = undef;
		}
		return 1;
	}
	return !$alive;
}

sub end
{
	my ($self) = @_;
	eval { $self->{run}->kill_kill(grace => 0) };
	return;
}

sub renew
{
	my ($self) = @_;
	$self->end;
	$self->start;
	return;
}

1;
