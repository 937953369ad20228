/** Client of MemoryHub's agent API, typed by the hub's OpenAPI document. */
import createClient, { type Client, type ClientOptions } from "openapi-fetch";
import type { components, operations, paths } from "./api.js";

export type { components, operations, paths };
export type Schemas = components["schemas"];
/** A problem document (RFC 9457); `code` is stable. */
export type Problem = Schemas["ErrorOut"];
export type Hub = Client<paths>;

/** A refusal of the hub, or an answer of a server before it, which has no `problem`. */
export class HubError extends Error {
  override readonly name = "HubError";
  /** The stable word for what went wrong; empty if it was not the hub that answered. */
  readonly code: string;

  constructor(
    readonly status: number,
    readonly problem: Problem | undefined,
    /** Seconds after which the hub asks for a repeat. */
    readonly retryAfter: number | undefined,
  ) {
    super(problem ? `${status} ${problem.code}: ${problem.detail}` : `${status}`);
    this.code = problem?.code ?? "";
  }
}

/** Make a client of the hub at this address. The key goes nowhere else: no redirect is followed. */
export function connect(
  url: string,
  key: string,
  options: Omit<ClientOptions, "baseUrl" | "headers" | "redirect"> = {},
): Hub {
  const headers = { Authorization: `Bearer ${key}` };
  return createClient<paths>({ ...options, baseUrl: url, headers, redirect: "error" });
}

/** Return the data of an answer. Throws HubError for a refusal. */
export async function take<Data>(
  sent: Promise<{ data?: Data; error?: unknown; response: Response }>,
): Promise<Data> {
  const { data, error, response } = await sent;
  if (response.ok) return data as Data;
  const seconds = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  const retryAfter = Number.isNaN(seconds) ? undefined : seconds;
  throw new HubError(response.status, isProblem(error) ? error : undefined, retryAfter);
}

/** Return the header of a write that has one effect for 24 hours, however often it is sent. */
export function once(key: string = crypto.randomUUID()): { "Idempotency-Key": string } {
  return { "Idempotency-Key": key };
}

function isProblem(error: unknown): error is Problem {
  return typeof error === "object" && error !== null && "code" in error && "detail" in error;
}
