package main

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"time"

	zmq "github.com/pebbe/zmq4"
)

var requestID = regexp.MustCompile("^[0-9a-f]{32}$")

// runTitanic stores count requests of 9/TSP, fetches each reply by its id, closes it and sees that it is unknown then.
func runTitanic(endpoint, count string) error {
	requests, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	socket, err := connect(zmq.REQ, endpoint)
	if err != nil {
		return err
	}
	defer socket.Close()
	ids := []string{}
	for number := 0; number < requests; number++ {
		answer, err := call(socket, "titanic.request", "echo", fmt.Sprintf("hello %d", number), "")
		if err != nil {
			return err
		}
		if len(answer) != 2 || answer[0] != "200" || !requestID.MatchString(answer[1]) {
			return fmt.Errorf("titanic.request answered %q", answer)
		}
		ids = append(ids, answer[1])
	}
	for number, id := range ids {
		if err := fetch(socket, id, []string{"200", fmt.Sprintf("hello %d", number), ""}); err != nil {
			return err
		}
		for _, step := range []struct{ service, status string }{
			{"titanic.close", "200"}, {"titanic.close", "200"}, {"titanic.reply", "400"},
		} {
			answer, err := call(socket, step.service, id)
			if err != nil {
				return err
			}
			if !reflect.DeepEqual(answer, []string{step.status}) {
				return fmt.Errorf("%s answered %q", step.service, answer)
			}
		}
	}
	fmt.Printf("%d stored replies\n", requests)
	return nil
}

// fetch asks for a reply until it is there, and compares it.
func fetch(socket *zmq.Socket, id string, want []string) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		answer, err := call(socket, "titanic.reply", id)
		if err != nil {
			return err
		}
		if reflect.DeepEqual(answer, want) {
			return nil
		}
		if !reflect.DeepEqual(answer, []string{"300"}) {
			return fmt.Errorf("titanic.reply answered %q", answer)
		}
	}
	return fmt.Errorf("no reply to %s within a minute", id)
}

// call sends one request and returns the body of its reply.
func call(socket *zmq.Socket, service string, body ...string) ([]string, error) {
	if _, err := socket.SendMessage(append([]string{clientHeader, service}, body...)); err != nil {
		return nil, err
	}
	received, err := socket.RecvMessage(0)
	if err != nil {
		return nil, err
	}
	if len(received) < 3 || received[0] != clientHeader || received[1] != service {
		return nil, fmt.Errorf("malformed reply %q", received)
	}
	return received[2:], nil
}
