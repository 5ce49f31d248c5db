package intask

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/burstlet/burstlet/backend/httpget"
)

// The health protocol, version 1 (grpc/doc/health-checking.md), over HTTP/2 without
// TLS (grpc/doc/PROTOCOL-HTTP2.md). Its two messages have one field each:
// HealthCheckRequest.service = 1, a string, and HealthCheckResponse.status = 1, an
// enum.
const (
	grpcMethod = "/grpc.health.v1.Health/Check"
	// grpcHeader is a message's: a byte, 0 for not compressed, and its length.
	grpcHeader = 5
	// maxHealth bounds a response, in bytes.
	maxHealth = 4 << 10
	// grpcPause is how long a server that refuses is not asked again.
	grpcPause = 100 * time.Millisecond
)

// Keys of the one field in either message: number<<3 | wire type.
const (
	serviceField = 1<<3 | 2
	statusField  = 1 << 3
)

// Codes of gRPC (grpc/doc/statuscodes.md).
const (
	grpcUnknown       = 2
	grpcDeadline      = 4
	grpcUnimplemented = 12
	grpcInternal      = 13
	grpcUnavailable   = 14
)

// grpcCodes are the names of codes, as grpc-go writes them.
var grpcCodes = [...]string{
	"OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists", "PermissionDenied",
	"ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented", "Internal", "Unavailable",
	"DataLoss", "Unauthenticated",
}

// servingStatuses are HealthCheckResponse.ServingStatus.
var servingStatuses = [...]string{"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"}

const serving = 1

// grpcError is a call's end that is not OK.
type grpcError struct {
	code    int
	message string
}

// Error is in grpc-go's words.
func (e *grpcError) Error() string {
	name := "Code(" + strconv.Itoa(e.code) + ")"
	if e.code >= 0 && e.code < len(grpcCodes) {
		name = grpcCodes[e.code]
	}
	return "rpc error: code = " + name + " desc = " + e.message
}

// grpc asks a service for its health.
func (c checker) grpc(ctx context.Context, g *GRPC, timeout time.Duration) (verdict, string, error) {
	address, err := c.at("", g.Port)
	if err != nil {
		return unknown, "", err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := connected(limited, address)
	if err != nil {
		if ctx.Err() != nil {
			return unknown, "", ctx.Err()
		}
		return failed, fmt.Sprintf("timeout: failed to connect service %q within %v: %v", address, timeout, err), nil
	}
	defer func() { _ = conn.Close() }() // the answer is there
	status, err := askHealth(limited, conn, address, g.Service)
	if ctx.Err() != nil {
		return unknown, "", ctx.Err()
	}
	v, output := judgeHealth(status, err, limited.Err() != nil, timeout)
	return v, clip(output), nil
}

// judgeHealth puts the end of a call into the kubelet's words.
func judgeHealth(status int, err error, late bool, timeout time.Duration) (verdict, string) {
	var why *grpcError
	switch {
	case err == nil && status == serving:
		return success, "service healthy"
	case err == nil:
		name := strconv.Itoa(status)
		if status >= 0 && status < len(servingStatuses) {
			name = servingStatuses[status]
		}
		return failed, fmt.Sprintf("service unhealthy (responded with %q)", name)
	case late, errors.As(err, &why) && why.code == grpcDeadline:
		return failed, fmt.Sprintf("timeout: health rpc did not complete within %v", timeout)
	case errors.As(err, &why) && why.code == grpcUnimplemented:
		return failed, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " +
			why.message
	default:
		return failed, fmt.Sprintf("error: health rpc probe failed: %v", err)
	}
}

// connected waits for a connection as long as ctx lasts: a server that refuses now
// may listen a moment later, as for a kubelet.
func connected(ctx context.Context, address string) (net.Conn, error) {
	ticker := time.NewTicker(grpcPause)
	defer ticker.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
}

// askHealth makes the call on a connection.
func askHealth(ctx context.Context, conn net.Conn, address, service string) (int, error) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	dials := 0
	transport := &http.Transport{
		Protocols: &protocols, DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			if dials++; dials > 1 {
				return nil, errors.New("the connection was lost")
			}
			return conn, nil
		},
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(
		ctx, http.MethodPost, "http://"+address+grpcMethod, bytes.NewReader(healthRequest(service)),
	)
	if err != nil {
		return 0, err
	}
	req.Header = http.Header{
		"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "User-Agent": {httpget.ForProbe.UserAgent()},
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return 0, &grpcError{grpcUnavailable, err.Error()}
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxHealth))
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return 0, &grpcError{grpcUnavailable, err.Error()}
	}
	if err := grpcStatus(res); err != nil {
		return 0, err
	}
	return healthStatus(body)
}

// grpcStatus is nil for a call that ended well. Without a body the status stands
// among the headers.
func grpcStatus(res *http.Response) error {
	trailer := res.Trailer
	if trailer.Get("Grpc-Status") == "" {
		trailer = res.Header
	}
	text := trailer.Get("Grpc-Status")
	switch {
	case text == "0":
		return nil
	case text == "" && res.StatusCode != http.StatusOK:
		code := grpcUnknown
		if res.StatusCode == http.StatusNotFound {
			code = grpcUnimplemented
		}
		return &grpcError{code, fmt.Sprintf(
			"unexpected HTTP status code received from server: %d (%s)", res.StatusCode, http.StatusText(res.StatusCode),
		)}
	}
	code, err := strconv.Atoi(text)
	if err != nil {
		return &grpcError{grpcInternal, "malformed grpc-status"}
	}
	return &grpcError{code, unescapeMessage(trailer.Get("Grpc-Message"))}
}

// unescapeMessage undoes the percent encoding of grpc-message; what is none stays.
func unescapeMessage(s string) string {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if b, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				out, i = append(out, byte(b)), i+2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

// healthRequest is the message with its header.
func healthRequest(service string) []byte {
	var message []byte
	if service != "" {
		message = binary.AppendUvarint([]byte{serviceField}, uint64(len(service)))
		message = append(message, service...)
	}
	out := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return append(out, message...)
}

// healthStatus reads the message. Fields that are not known to this version are
// passed over.
func healthStatus(body []byte) (int, error) {
	bad := &grpcError{grpcInternal, "the answer is no HealthCheckResponse"}
	if len(body) < grpcHeader || body[0] != 0 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-grpcHeader {
		return 0, bad
	}
	status := 0
	for rest := body[grpcHeader:]; len(rest) > 0; {
		key, n := binary.Uvarint(rest)
		if n <= 0 {
			return 0, bad
		}
		value, after, ok := protoValue(key&7, rest[n:])
		if !ok {
			return 0, bad
		}
		if key == statusField {
			status = int(int32(value))
		}
		rest = after
	}
	return status, nil
}

// protoValue reads a field's value and returns what comes after it. Only that of a
// varint means something here.
func protoValue(wire uint64, b []byte) (value uint64, rest []byte, ok bool) {
	size := uint64(0)
	switch wire {
	case 0:
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, nil, false
		}
		return v, b[n:], true
	case 1:
		size = 8
	case 2:
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, nil, false
		}
		size, b = v, b[n:]
	case 5:
		size = 4
	default:
		return 0, nil, false
	}
	if size > uint64(len(b)) {
		return 0, nil, false
	}
	return 0, b[size:], true
}
