// What a program can say by the types, and what it can not.
import type { components, operations } from "./api";

type Schemas = components["schemas"];
type Sent = operations["slots_append"]["requestBody"]["content"]["application/json"];
type Answers = operations["slots_append"]["responses"];

const said: Sent = {
  from: "user",
  to: "agent",
  type: "chat.user",
  content: { role: "user", content: "Is seat 12A free?" },
};
// @ts-expect-error A message has a receiver.
const nobody: Sent = { from: "user", type: "chat.user", content: null };
// @ts-expect-error There is no such policy.
const config: Schemas["ConfigIn"] = { policy: "fifo" };

export function index(answer: Answers[201]["content"]["application/json"]): number {
  return answer.index;
}

export function code(
  answer: Answers["4XX"]["content"]["application/problem+json"],
): string {
  return answer.code;
}

export const all = [said, nobody, config];
