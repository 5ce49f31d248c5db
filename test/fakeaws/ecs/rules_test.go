package ecs

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What a volume of S3 Files needs.
const (
	s3FileSystem = "arn:aws:s3files:us-east-1:123456789012:file-system/fs-0123456789abcdef0"
	s3Role       = `"taskRoleArn":"arn:aws:iam::123456789012:role/x",`
)

// post calls an action of a service with a body and returns the code of its
// error, "" for none.
func post(t *testing.T, s *Server, service, action, body string) string {
	t.Helper()
	_, out := raw(t, s, action, body, func(r *http.Request) {
		for _, svc := range s.apis {
			if svc.name == service {
				r.Header.Set("X-Amz-Target", svc.target+action)
				r.Header.Set("Content-Type", svc.contentType)
			}
		}
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "/ecs/", "/"+service+"/", 1))
	})
	typ, _ := out["__type"].(string)
	return typ[strings.LastIndex(typ, "#")+1:]
}

// family is a valid definition with members put in: task's and the container's.
func family(task, container string) string {
	for _, m := range []*string{&task, &container} {
		if *m != "" {
			*m = "," + *m
		}
	}
	return `{"family":"f","cpu":"256","memory":"512","networkMode":"awsvpc","requiresCompatibilities":["FARGATE"],"executionRoleArn":"` +
		testRole +
		`","containerDefinitions":[{"name":"a","image":"i","command":["sleep","9000"]` + container + `}]` + task + `}`
}

func TestMembersOfDefinitions(t *testing.T) {
	env := strings.TrimSuffix(strings.Repeat(`{"type":"s3","value":"arn:aws:s3:::b/x.env"},`, 11), ",")
	for body, want := range map[string]string{
		family(``, ``): "",
		strings.Replace(family(``, ``), "FARGATE", "EC2", 1):                                          clientEx,
		strings.Replace(family(``, ``), `"image":"i"`, `"image":"i i"`, 1):                            clientEx,
		strings.Replace(family(``, ``), `"name":"a"`, `"name":"a.b"`, 1):                              clientEx,
		strings.Replace(family(``, ``), `{"name":"a","image":"i","command":["sleep","9000"]}`, "", 1): clientEx,
		family(`"placementConstraints":[{}]`, ``):                                                     clientEx,
		family(`"ephemeralStorage":{"sizeInGiB":20}`, ``):                                             clientEx,
		family(`"ephemeralStorage":{"sizeInGiB":21}`, ``):                                             "",
		family(`"ephemeralStorage":{"sizeInGiB":201}`, ``):                                            clientEx,
		family(`"runtimePlatform":{"cpuArchitecture":"x"}`, ``):                                       clientEx,
		family(`"runtimePlatform":{"operatingSystemFamily":"WINDOWS_SERVER_2022_CORE"}`, ``):          clientEx,
		family(`"pidMode":"task"`, ``):                                                                "",
		family(
			`"tags":[`+strings.TrimSuffix(strings.Repeat(`{"key":"k"},`, 51), ",")+`]`, ``,
		): "InvalidParameterException",

		family(``, `"cpu":-1`):                           clientEx,
		family(``, `"cpu":257`):                          clientEx,
		family(``, `"cpu":256`):                          "",
		family(``, `"user":"a b"`):                       clientEx,
		family(``, `"user":"1000:1000"`):                 "",
		family(``, `"memory":10,"memoryReservation":10`): clientEx,
		family(``, `"memory":11,"memoryReservation":10`): "",
		family(``, `"startTimeout":1`):                   clientEx,

		family(``, `"portMappings":[{"containerPort":80,"hostPort":81}]`):                        clientEx,
		family(``, `"portMappings":[{"containerPort":80,"protocol":"sctp"}]`):                    clientEx,
		family(``, `"portMappings":[{"containerPort":80,"hostPort":80,"protocol":"udp"}]`):       "",
		family(``, `"environment":[{"value":"x"}]`):                                              clientEx,
		family(``, `"environmentFiles":[`+env+`]`):                                               clientEx,
		family(``, `"restartPolicy":{}`):                                                         clientEx,
		family(``, `"logConfiguration":{"logDriver":"awslogs","options":{"awslogs-group":"g"}}`): clientEx,
		family(``, `"logConfiguration":{"logDriver":"awsfirelens"}`):                             clientEx,
		family(``, `"firelensConfiguration":{"type":"fluentbit"}`):                               clientEx,
		family(``, `"dependsOn":[{"containerName":"a","condition":"X"}]`):                        clientEx,

		family(
			`"volumes":[{"name":"v","host":{},"efsVolumeConfiguration":{}}]`, ``,
		): clientEx,
		family(
			`"volumes":[{"name":"v","fsxWindowsFileServerVolumeConfiguration":{}}]`, ``,
		): clientEx,
		family(
			`"volumes":[{"name":"v","configuredAtLaunch":true},{"name":"w","configuredAtLaunch":true}]`, ``,
		): clientEx,
		family(
			`"volumes":[{"name":"v","configuredAtLaunch":true,"host":{}}]`, ``,
		): clientEx,
		family(
			`"volumes":[{"name":"v","s3filesVolumeConfiguration":{}}]`, ``,
		): clientEx,
		family(
			s3Role+`"volumes":[{"name":"v","s3filesVolumeConfiguration":{"fileSystemArn":"`+s3FileSystem+`"}}]`, ``,
		): "",
		family(
			`"volumes":[{"name":"v","s3filesVolumeConfiguration":{"fileSystemArn":"`+s3FileSystem+`"}}]`, ``,
		): clientEx,
		family(
			s3Role+`"volumes":[{"name":"v","s3filesVolumeConfiguration":{"fileSystemArn":"fs-1"}}]`, ``,
		): clientEx,
		family(s3Role+`"volumes":[{"name":"v","s3filesVolumeConfiguration":{"fileSystemArn":"`+s3FileSystem+
			`","rootDirectory":"a"}}]`, ``): clientEx,
		family(s3Role+`"volumes":[{"name":"v","s3filesVolumeConfiguration":{"fileSystemArn":"`+s3FileSystem+
			`","accessPointArn":"fsap-1"}}]`, ``): clientEx,
		family(s3Role+`"volumes":[{"name":"v","s3filesVolumeConfiguration":{"fileSystemArn":"`+s3FileSystem+
			`","accessPointArn":"`+s3FileSystem+`/access-point/fsap-0123456789abcdef0","rootDirectory":"/a"}}]`, ``): clientEx,
		family(
			`"volumes":[{"name":"v","efsVolumeConfiguration":{"fileSystemId":"fs-01234567","transitEncryption":"X"}}]`, ``,
		): clientEx,
		family(
			`"volumes":[{"name":"v","efsVolumeConfiguration":{"fileSystemId":"fs-01234567","transitEncryptionPort":1}}]`, ``,
		): clientEx,
		family(
			`"volumes":[{"name":"v","efsVolumeConfiguration":{"fileSystemId":"fs-01234567","rootDirectory":"x"}}]`, ``,
		): clientEx,
		family(
			`"volumes":[{"name":"v","efsVolumeConfiguration":{"fileSystemId":"fs-01234567","authorizationConfig":{"accessPointId":"x"}}}]`,
			``,
		): clientEx,
		family(
			`"volumes":[{"name":"v","efsVolumeConfiguration":{"fileSystemId":"fs-01234567","authorizationConfig":{"iam":"X"}}}]`,
			``,
		): clientEx,
		family(
			`"volumes":[{"name":"v","efsVolumeConfiguration":{"fileSystemId":"fs-01234567","authorizationConfig":{"iam":"ENABLED"}}}]`,
			``,
		): clientEx,
		family(
			`"volumes":[{"name":"v"}]`,
			`"mountPoints":[{"sourceVolume":"v","containerPath":"/x"},{"sourceVolume":"v","containerPath":"/x"}]`,
		): clientEx,
		family(
			`"volumes":[{"name":"v"}]`,
			`"mountPoints":[{"sourceVolume":"v","containerPath":"/x"},{"sourceVolume":"v","containerPath":"/y"}]`,
		): "",

		strings.Replace(family(
			``, `"repositoryCredentials":{"credentialsParameter":"`+anySecret+`"}`,
		), `"executionRoleArn":"`+testRole+`",`, "", 1): clientEx,
		strings.Replace(
			family(``, `"logConfiguration":{"logDriver":"awslogs","options":{}}`), `"executionRoleArn":"`+testRole+`",`, "", 1,
		): clientEx,

		family(``, `"logConfiguration":{"logDriver":"awslogs","options":{"awslogs-group":"g","awslogs-region":"r","awslogs-stream-prefix":"p",`+
			`"awslogs-create-group":"yes"}}`): clientEx,
	} {
		if got := post(t, New(Config{}), "ecs", "RegisterTaskDefinition", body); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

const anySecret = "arn:aws:secretsmanager:us-east-1:123456789012:secret:a-AbCdEf"

// launchOf is a valid request to run a task with members put in.
func launchOf(members string) string {
	return `{"taskDefinition":"f","launchType":"FARGATE","networkConfiguration":{"awsvpcConfiguration":{"subnets":["subnet-1"]}}` +
		members + `}`
}

func TestMembersOfRequests(t *testing.T) {
	const invalid = "InvalidParameterException"
	ids := func(n int) string {
		return strings.TrimSuffix(strings.Repeat(`"x",`, n), ",")
	}
	entries := func(n int) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf(`{"Id":"%d","ReceiptHandle":"x"}`, i))
		}
		return strings.Join(out, ",")
	}
	url := `"QueueUrl":"` + New(Config{}).QueueURL("q") + `"`
	for _, tc := range []struct{ service, action, body, want string }{
		{"ecs", "RunTask", launchOf(``), ""},
		{"ecs", "RunTask", `{}`, invalid},
		{"ecs", "RunTask", launchOf(`,"propagateTags":"TASK_DEFINITION"`), ""},
		{"ecs", "RunTask", launchOf(`,"overrides":null`), ""},
		{"ecs", "RunTask", launchOf(`,"overrides":{"executionRoleArn":"x"}`), invalid},
		{
			"ecs", "RunTask", launchOf(`,"overrides":{"containerOverrides":[{"name":"a","environment":[{"value":"x"}]}]}`),
			invalid,
		},
		{
			"ecs", "RunTask", launchOf(`,"overrides":{"containerOverrides":[{"name":"a","environmentFiles":[{"type":"x"}]}]}`),
			invalid,
		},
		{
			"ecs", "RunTask",
			launchOf(`,"capacityProviderStrategy":[` + strings.TrimSuffix(strings.Repeat(`{},`, 21), ",") + `],"launchType":""`),
			"SerializationException",
		},
		{
			"ecs", "RunTask",
			`{"taskDefinition":"f","capacityProviderStrategy":[` + strings.TrimSuffix(strings.Repeat(`{},`, 21), ",") + `]}`,
			invalid,
		},
		{
			"ecs", "RunTask",
			`{"taskDefinition":"f","launchType":"FARGATE","networkConfiguration":{"awsvpcConfiguration":{"subnets":[]}}}`,
			invalid,
		},
		{
			"ecs", "RunTask",
			`{"taskDefinition":"f","launchType":"FARGATE","networkConfiguration":{"awsvpcConfiguration":{"subnets":["subnet-1"],"assignPublicIp":"x"}}}`,
			invalid,
		},
		{"ecs", "RunTask", strings.Replace(launchOf(``), `"f"`, `"old:1"`, 1), clientEx},
		{"ecs", "DescribeTasks", `{"tasks":[]}`, invalid},
		{"ecs", "DescribeTasks", `{"tasks":[` + ids(101) + `]}`, invalid},
		{"ecs", "DescribeTasks", `{"tasks":[` + ids(100) + `]}`, ""},
		{"ecs", "DescribeTasks", `{"tasks":["x"],"include":["X"]}`, invalid},
		{"ecs", "ListTasks", `{"desiredStatus":"X"}`, invalid},
		{"ecs", "ListTasks", `{"maxResults":101}`, invalid},
		{"ecs", "ListTasks", `{"nextToken":"x"}`, invalid},
		{"ecs", "StopTask", `{"task":"x","reason":"` + strings.Repeat("x", 1025) + `"}`, invalid},
		{"ecs", "DescribeClusters", `{"include":["X"]}`, invalid},
		{"ecs", "DescribeClusters", `{"include":["TAGS"]}`, ""},
		{"ecs", "DescribeClusters", `{"clusters":[` + ids(101) + `]}`, invalid},
		{"ecs", "ListTaskDefinitions", `{"status":"X"}`, invalid},
		{"ecs", "ListTaskDefinitions", `{"sort":"X"}`, invalid},
		{"ecs", "ListTaskDefinitionFamilies", `{"status":"X"}`, invalid},
		{"ecs", "DeregisterTaskDefinition", `{"taskDefinition":"f"}`, clientEx},
		{"ecs", "DeleteTaskDefinitions", `{"taskDefinitions":[` + ids(11) + `]}`, invalid},
		{"ecs", "TagResource", `{"resourceArn":"x"}`, invalid},
		{
			"ecs", "UntagResource", `{"resourceArn":"arn:aws:ecs:us-east-1:123456789012:task-definition/f:1","tagKeys":["k"]}`,
			"",
		},

		{"logs", "GetLogEvents", `{"logGroupName":"g"}`, invalid},
		{"logs", "GetLogEvents", `{"logStreamName":"s"}`, invalid},
		{"logs", "GetLogEvents", `{"logGroupName":"g","logGroupIdentifier":"g","logStreamName":"s"}`, invalid},
		{"logs", "GetLogEvents", `{"logGroupName":"g","logStreamName":"p/a/ID","nextToken":"f/0"}`, invalid},
		{"logs", "FilterLogEvents", `{"logGroupName":"g","logStreamNames":["s"],"logStreamNamePrefix":"s"}`, invalid},
		{"logs", "FilterLogEvents", `{"logGroupName":"g","nextToken":"x"}`, invalid},
		{"logs", "FilterLogEvents", `{"logGroupName":"g","endTime":1}`, ""},
		{"logs", "DescribeLogGroups", `{"nextToken":"x"}`, invalid},
		{"logs", "DescribeLogGroups", `{"limit":51}`, invalid},
		{"logs", "DescribeLogStreams", `{"logGroupName":"g","orderBy":"X"}`, invalid},
		{"logs", "DescribeLogStreams", `{"logGroupName":"g","orderBy":"LastEventTime","descending":true}`, ""},

		{"secretsmanager", "ListSecrets", `{"SortOrder":"x"}`, invalid},
		{
			"secretsmanager", "ListSecrets",
			`{"SortOrder":"desc","Filters":[{"Key":"description","Values":["X"]},{"Key":"all","Values":["x"]}]}`, "",
		},
		{"secretsmanager", "ListSecrets", `{"NextToken":"x"}`, "InvalidNextTokenException"},
		{
			"secretsmanager", "ListSecrets",
			`{"Filters":[` + strings.TrimSuffix(strings.Repeat(`{"Key":"name","Values":["x"]},`, 11), ",") + `]}`, invalid,
		},
		{"secretsmanager", "ListSecrets", `{"Filters":[{"Key":"name","Values":[""]}]}`, invalid},
		{"secretsmanager", "CreateSecret", `{"Name":"b","Description":"` + strings.Repeat("x", 2049) + `"}`, invalid},
		{"secretsmanager", "GetSecretValue", `{"SecretId":"empty"}`, "ResourceNotFoundException"},
		{"secretsmanager", "PutSecretValue", `{"SecretId":"empty"}`, "InvalidRequestException"},
		{"secretsmanager", "PutSecretValue", `{"SecretId":"empty","Tags":[]}`, invalid},
		{
			"secretsmanager", "DeleteSecret", `{"SecretId":"empty","ForceDeleteWithoutRecovery":true,"RecoveryWindowInDays":7}`,
			invalid,
		},

		{"sqs", "DeleteMessageBatch", `{` + url + `,"Entries":[]}`, "EmptyBatchRequest"},
		{"sqs", "DeleteMessageBatch", `{` + url + `,"Entries":[` + entries(11) + `]}`, "TooManyEntriesInBatchRequest"},
		{"sqs", "DeleteMessageBatch", `{` + url + `,"Entries":[{"ReceiptHandle":"x"}]}`, "InvalidBatchEntryId"},
		{"sqs", "DeleteMessageBatch", `{` + url + `,"Entries":[` + entries(10) + `]}`, ""}, // each fails alone
		{"sqs", "ChangeMessageVisibilityBatch", `{` + url + `,"Entries":[` + entries(1) + `]}`, ""},
		{"sqs", "ChangeMessageVisibility", `{` + url + `,"ReceiptHandle":"x"}`, "InvalidParameterValue"},
		{
			"sqs", "ChangeMessageVisibility",
			`{` + url + `,"ReceiptHandle":"` + strings.Repeat("a", 64) + `.1","VisibilityTimeout":1}`, "MessageNotInflight",
		},
		{"sqs", "GetQueueAttributes", `{` + url + `,"AttributeNames":["X"]}`, "InvalidAttributeName"},
		{"sqs", "GetQueueAttributes", `{` + url + `,"AttributeNames":["QueueArn"]}`, ""},
	} {
		s := New(Config{Queues: []string{"q"}, LogGroups: []string{"g"}})
		log := `"logConfiguration":{"logDriver":"awslogs","options":{"awslogs-group":"g","awslogs-region":"us-east-1","awslogs-stream-prefix":"p"}}`
		for _, prepare := range [][3]string{
			{"ecs", "RegisterTaskDefinition", family(``, log)},
			{"ecs", "RegisterTaskDefinition", strings.Replace(family(``, ``), `"f"`, `"old"`, 1)},
			{"ecs", "DeregisterTaskDefinition", `{"taskDefinition":"old:1"}`},
			{"ecs", "RunTask", launchOf(``)},
			{"secretsmanager", "CreateSecret", `{"Name":"empty"}`},
		} {
			if got := post(t, s, prepare[0], prepare[1], prepare[2]); got != "" {
				t.Fatalf("%v: %s", prepare, got)
			}
		}
		arn := s.Tasks(false)[0]
		body := strings.ReplaceAll(tc.body, "ID", arn[strings.LastIndex(arn, "/")+1:])
		if tc.service != "logs" { // the letters stand in members' names elsewhere
			body = tc.body
		}
		if got := post(t, s, tc.service, tc.action, body); got != tc.want {
			t.Errorf("%s %s: got %q, want %q", tc.action, tc.body, got, tc.want)
		}
	}
}

func TestVersionsOfASecret(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, s *Server) {
		put := func(n int, text string) string {
			return post(t, s, "secretsmanager", "PutSecretValue", fmt.Sprintf(
				`{"SecretId":"a","ClientRequestToken":"%032d","SecretString":%q}`, n, text,
			))
		}
		create(t, s, "a", "x")
		for n := range 150 {
			if got := put(n, "v"); got != "" {
				t.Fatal(got)
			}
			wait(15 * time.Minute)
		}
		if got := put(149, "v"); got != "" {
			t.Fatalf("the same again: %s", got)
		}
		if got := put(149, "w"); got != "ResourceExistsException" {
			t.Fatalf("another value for a version: %s", got)
		}
		if n := len(s.secrets["a"].versions); n != maxVersions {
			t.Fatalf("%d versions", n)
		}
		for id, want := range map[string]string{
			fmt.Sprintf("%032d", 148): "", fmt.Sprintf("%032d", 3): "ResourceNotFoundException",
		} {
			if got := post(t, s, "secretsmanager", "GetSecretValue", `{"SecretId":"a","VersionId":"`+id+`"}`); got != want {
				t.Errorf("%s: %s", id, got)
			}
		}
	})
}
