# Restarts one systemd service over the system bus, and waits until the job is done.
#
# PAR_CONNECT_1 is the descriptor of the bus, connected as the tool's own user; polkit also decides
# what that user may restart. The first argument is the unit. Prints one JSON object, and exits
# with 0 if the job's result is `done`.
#
# Speaks D-Bus directly, so that it needs only Perl. A message is a header, an array of fields and a
# body, all little-endian here.
use strict;
use warnings;

my ($unit) = @ARGV;
my $manager = 'org.freedesktop.systemd1.Manager';
my $serial  = 0;
open(my $bus, '+<&=', $ENV{PAR_CONNECT_1}) or die "PAR_CONNECT_1: $!\n";

sub padded { my ($bytes, $to) = @_; return $bytes . "\0" x (-length($bytes) % $to) }
sub text   { my ($text) = @_;       return pack('V/a* x', $text) }

sub field {
    my ($code, $type, $value) = @_;
    my $is_signature = $type eq 'g';
    return pack('C C a x', $code, 1, $type) . ($is_signature ? pack('C/a* x', $value) : text($value));
}

sub send_bytes {
    my ($bytes) = @_;
    while (length $bytes) {
        my $sent = syswrite($bus, $bytes) // die "the bus: $!\n";
        substr($bytes, 0, $sent, '');
    }
}

sub read_bytes {
    my ($length) = @_;
    my $bytes = '';
    while (length $bytes < $length) {
        my $got = sysread($bus, $bytes, $length - length $bytes, length $bytes) // die "the bus: $!\n";
        die "the bus closed the connection\n" if $got == 0;
    }
    return $bytes;
}

# Strings of a body, each aligned to four bytes.
sub texts {
    my (@texts) = @_;
    my $body = '';
    $body = padded($body, 4) . text($_) for @texts;
    return $body;
}

sub call {
    my ($to, $path, $interface, $member, @texts) = @_;
    my $body   = texts(@texts);
    my @fields = (field(1, 'o', $path), field(6, 's', $to), field(2, 's', $interface), field(3, 's', $member));
    push @fields, field(8, 'g', 's' x @texts) if @texts;
    my $fields = '';
    $fields = padded($fields, 8) . $_ for @fields;
    my $head = pack('a C C C V V V/a*', 'l', 1, 0, 1, length $body, ++$serial, $fields);
    send_bytes(padded($head, 8) . $body);
    my $answer;
    do { $answer = message() } until $answer->{answers} == $serial;
    die "$member: $answer->{error}: $answer->{text}\n" if $answer->{kind} == 3;
    return $answer;
}

# Reads the next message: its kind, the fields that are needed, and the strings of its body.
sub message {
    my ($order, $kind, undef, undef, $length, undef, $room) = unpack('a C C C V V V', read_bytes(16));
    die "the bus uses another byte order than little-endian\n" if $order ne 'l';
    my $fields = read_bytes($room + -$room % 8);
    my $body   = read_bytes($length);
    my %message = (kind => $kind, answers => 0);
    my $at = 0;
    while ($at < $room) {
        $at += -$at % 8;
        my ($code, $type) = unpack("x$at C x a", $fields);
        $at += 4;
        if ($type eq 'u') {
            $message{answers} = unpack("x$at V", $fields) if $code == 5;
            $at += 4;
        } elsif ($type eq 'g') {
            my $signature = unpack("x$at C/a", $fields);
            $message{signature} = $signature;
            $at += 2 + length $signature;
        } else {
            my $value = unpack("x$at V/a", $fields);
            $message{member} = $value if $code == 3;
            $message{error} = $value if $code == 4;
            $at += 5 + length $value;
        }
    }
    $message{texts} = [read_texts($message{signature} // '', $body)];
    $message{text} = $message{texts}[0] // '';
    return \%message;
}

sub read_texts {
    my ($signature, $body) = @_;
    my ($at, @texts) = (0);
    for my $type (split //, $signature) {
        last unless $type =~ /[sou]/;
        $at += -$at % 4;
        if ($type eq 'u') { $at += 4; next }
        push @texts, unpack("x$at V/a", $body);
        $at += 5 + length $texts[-1];
    }
    return @texts;
}

# The bus takes the user from the socket's credentials, so EXTERNAL is sent without a name.
send_bytes("\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n");
for my $expect (qr/^DATA/, qr/^OK /) {
    my $line = '';
    $line .= read_bytes(1) until $line =~ /\r\n\z/;
    die "the bus rejects this user: $line" if $line !~ $expect;
}

my @bus     = ('org.freedesktop.DBus', '/org/freedesktop/DBus', 'org.freedesktop.DBus');
my @systemd = ('org.freedesktop.systemd1', '/org/freedesktop/systemd1', $manager);
call(@bus, 'Hello');
call(@bus, 'AddMatch', "type='signal',sender='$systemd[0]',interface='$manager',member='JobRemoved'");
call(@systemd, 'Subscribe');
my $job = call(@systemd, 'RestartUnit', $unit, 'replace')->{text};
my $result;
until (defined $result) {
    my $signal = message();
    next unless $signal->{kind} == 4 && ($signal->{member} // '') eq 'JobRemoved';
    my ($path, undef, $how) = @{ $signal->{texts} };
    $result = $how if $path eq $job;
}
$result =~ s/[^a-z]//g;
printf '{"service":"%s","result":"%s"}', $unit, $result;
exit($result eq 'done' ? 0 : 1);
