package ecs

import "time"

// rate is a token bucket: how many calls at once, and how many a second.
type rate struct{ burst, refill float64 }

// bucket is a token bucket in use.
type bucket struct {
	tokens float64
	at     time.Time
}

// rates are those of the API and of launches.
//
//   - ECS API reference, "Request throttling for the Amazon ECS API".
//   - ECS developer guide, "AWS Fargate throttling quotas": RunTask on Fargate, and
//     launches on demand and on Spot.
//   - Secrets Manager user guide, "Secrets Manager quotas": API request quotas. It
//     names rates alone: that a second's worth may come at once is undocumented.
//   - S3 user guide, "Best practices design patterns: optimizing Amazon S3 performance": for
//     each prefix; here for all.
//   - CloudWatch Logs user guide, "CloudWatch Logs quotas", us-east-1: the same.
//     Those of DeleteLogStream and PutRetentionPolicy are undocumented here.
var rates = map[string]rate{
	"ecs definitions modify": {20, 1},
	"ecs definitions read":   {50, 20},
	"ecs definitions delete": {5, 1},
	"ecs cluster resources":  {100, 40},
	"ecs fargate RunTask":    {20, 20},
	launchRate + onDemand:    {100, 20},
	launchRate + spot:        {100, 20},
	"ecs task read":          {100, 20},
	"ecs cluster read":       {50, 20},
	"ecs tag modify":         {20, 10},
	"ecs tag read":           {50, 20},

	"secretsmanager read":   {10000, 10000},
	"secretsmanager create": {50, 50},
	"secretsmanager put":    {50, 50},
	"secretsmanager delete": {50, 50},
	"secretsmanager list":   {100, 100},
	"secretsmanager tag":    {50, 50},

	"s3 read":  {5500, 5500},
	"s3 write": {3500, 3500},

	"logs GetLogEvents":       {25, 25},
	"logs FilterLogEvents":    {25, 25},
	"logs DescribeLogStreams": {25, 25},
	"logs DescribeLogGroups":  {10, 10},
	"logs groups modify":      {10, 10},
	"logs streams delete":     {15, 15},
}

const launchRate = "ecs fargate launch "

// bucketsOf are the buckets that an action draws from. SQS standard queues take
// nearly any number of calls (SQS developer guide, "Amazon SQS standard queues"); ECR and
// Service Quotas are asked now and then alone, so that their rates are left out.
var bucketsOf = map[string][]string{
	"ecs RegisterTaskDefinition":     {"ecs definitions modify"},
	"ecs DeregisterTaskDefinition":   {"ecs definitions modify"},
	"ecs DeleteTaskDefinitions":      {"ecs definitions delete"},
	"ecs DescribeTaskDefinition":     {"ecs definitions read"},
	"ecs ListTaskDefinitions":        {"ecs definitions read"},
	"ecs ListTaskDefinitionFamilies": {"ecs definitions read"},
	"ecs RunTask":                    {"ecs cluster resources", "ecs fargate RunTask"},
	"ecs StopTask":                   {"ecs cluster resources"},
	"ecs ExecuteCommand":             {"ecs cluster resources"},
	"ecs DescribeTasks":              {"ecs task read"},
	"ecs ListTasks":                  {"ecs task read"},
	"ecs DescribeClusters":           {"ecs cluster read"},
	"ecs TagResource":                {"ecs tag modify"},
	"ecs UntagResource":              {"ecs tag modify"},
	"ecs ListTagsForResource":        {"ecs tag read"},

	"secretsmanager CreateSecret":   {"secretsmanager create"},
	"secretsmanager DescribeSecret": {"secretsmanager read"},
	"secretsmanager GetSecretValue": {"secretsmanager read"},
	"secretsmanager PutSecretValue": {"secretsmanager put"},
	"secretsmanager DeleteSecret":   {"secretsmanager delete"},
	"secretsmanager ListSecrets":    {"secretsmanager list"},
	"secretsmanager TagResource":    {"secretsmanager tag"},
	"secretsmanager UntagResource":  {"secretsmanager tag"},

	"logs GetLogEvents":       {"logs GetLogEvents"},
	"logs FilterLogEvents":    {"logs FilterLogEvents"},
	"logs DescribeLogStreams": {"logs DescribeLogStreams"},
	"logs DescribeLogGroups":  {"logs DescribeLogGroups"},
	"logs CreateLogGroup":     {"logs groups modify"},
	"logs DeleteLogGroup":     {"logs groups modify"},
	"logs PutRetentionPolicy": {"logs groups modify"},
	"logs DeleteLogStream":    {"logs streams delete"},
}

// throttle draws what a call costs from its buckets, or refuses it: then it draws
// from none of them.
func (s *Server) throttle(service, action string, now time.Time) *apiError {
	return s.draw(bucketsOf[service+" "+action], 1, action, now)
}

// draw takes n tokens from each bucket or refuses.
func (s *Server) draw(names []string, n float64, action string, now time.Time) *apiError {
	if !s.cfg.Throttles {
		return nil
	}
	for _, name := range names {
		if s.fill(name, now).tokens < n {
			s.throttled[action]++
			if action == "RunTask" && s.throttled[action]%2 == 0 && !s.cfg.Kindness.PlainThrottles {
				// What ECS asks of EC2 for RunTask is throttled, and it passes that on as a bad
				// parameter: undocumented, reported of bursts on Fargate in these words
				// (dask/dask-cloudprovider#56, cdklabs/construct-hub#415).
				return invalidParameter("Error retrieving security group information for [sg-a]: " +
					"Request limit exceeded. (ErrorCode: RequestLimitExceeded)")
			}
			return failf("ThrottlingException", "Rate exceeded")
		}
	}
	for _, name := range names {
		s.buckets[name].tokens -= n
	}
	return nil
}

// fill brings a bucket up to date.
func (s *Server) fill(name string, now time.Time) *bucket {
	b, r := s.buckets[name], rates[name]
	if b == nil {
		b = &bucket{tokens: r.burst, at: now}
		s.buckets[name] = b
	}
	if d := now.Sub(b.at); d > 0 {
		b.tokens = min(r.burst, b.tokens+d.Seconds()*r.refill)
		b.at = now
	}
	return b
}
