package ecs

import "time"

// Bill is what the services beside Fargate cost in dollars, by the prices of us-east-1 on
// 2026-11-20.
type Bill struct {
	// Secrets are $0.40 a month each, by the hour (AWS Secrets Manager pricing).
	Secrets float64 `json:"secrets"`
	// SecretCalls are $0.05 for 10,000.
	SecretCalls float64 `json:"secretCalls"`
	// Objects are $0.023 a GB and month (Amazon S3 pricing, S3 Standard).
	Objects float64 `json:"objects"`
	// ObjectCalls are $0.005 for 1,000 that write or list and $0.0004 for 1,000 others;
	// DELETE is free.
	ObjectCalls float64 `json:"objectCalls"`
	// KMSCalls are $0.03 for 10,000 (AWS KMS pricing).
	KMSCalls float64 `json:"kmsCalls"`
}

// Dollars is the sum.
func (b Bill) Dollars() float64 {
	return b.Secrets + b.SecretCalls + b.Objects + b.ObjectCalls + b.KMSCalls
}

// Minus is what was added since another bill.
func (b Bill) Minus(o Bill) Bill {
	return Bill{
		b.Secrets - o.Secrets, b.SecretCalls - o.SecretCalls, b.Objects - o.Objects, b.ObjectCalls - o.ObjectCalls,
		b.KMSCalls - o.KMSCalls,
	}
}

// Prices. A month has 730 hours.
const (
	secretHour = 0.40 / 730
	secretCall = 0.05 / 10_000
	objectGB   = 0.023
	writeCall  = 0.005 / 1_000
	readCall   = 0.0004 / 1_000
	kmsCall    = 0.03 / 10_000
)

// Bill is what all so far has cost.
func (s *Server) Bill() Bill {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bill(time.Now())
}

func (s *Server) bill(now time.Time) Bill {
	s.erase(now)
	hours := s.secretHours
	for _, sec := range s.secrets {
		hours += sec.hours(now)
	}
	gb, kms := s.s3.Used(now)
	b := Bill{Secrets: hours * secretHour, Objects: gb * objectGB, KMSCalls: float64(kms) * kmsCall}
	for call, n := range s.billed {
		switch {
		case call.service == "secretsmanager":
			b.SecretCalls += float64(n) * secretCall
		case call.service != "s3", call.action == "DeleteObject":
		case call.action == "PutObject", call.action == "ListObjectsV2":
			b.ObjectCalls += float64(n) * writeCall
		default:
			b.ObjectCalls += float64(n) * readCall
		}
	}
	return b
}

// hours are those for which a secret is paid: not for one that is marked for deletion.
func (sec *secret) hours(now time.Time) float64 {
	if !sec.deleted.IsZero() {
		now = sec.deleted
	}
	return now.Sub(sec.created).Hours()
}

// billedCall is a call as a bill counts it.
type billedCall struct{ service, action string }
