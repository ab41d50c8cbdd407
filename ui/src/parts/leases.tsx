// Who grants leases if the store does not: servers, the workers it knows, and where it and the store disagree.
import type { LeaseHolder, Leases } from '../api/types';
import { href } from '../state/route';
import { plain } from '../text';
import { age, count } from '../time';
import { Mark, Pill } from './mark';
import { usePolled } from './polled';
import { Age } from './time';

export function LeaseManager() {
  const { data } = usePolled<Leases>('leases', 5000);
  if (!data || data.manager === 'store') return null;
  return (
    <section class="card manager" aria-label="lease manager">
      <h2>Leases by {plain(data.manager)}</h2>
      {data.problem && (
        <p class="notice is-failed" role="alert">
          <Mark status="failed" />
          <span class="text">{plain(data.problem)}</span>
        </p>
      )}
      <ul class="members" aria-label="servers">
        {data.members.map((one) => (
          <li>
            <Mark status={one.problem ? 'failed' : 'completed'} /> <b class="text">{plain(one.address)}</b> <span class={one.problem ? 'text' : 'text dim'}>{plain(one.problem || one.role)}</span>
          </li>
        ))}
      </ul>
      {data.disagreements.map((one) => (
        <p class="notice is-paused">
          <Mark status="paused" />
          <span class="text">
            <a class="id" href={href('run', { id: one.run })}>{plain(one.run)}</a> is granted to {plain(one.granted_to)}, and held by {plain(one.held_by)} in the store. The store decides who writes; this heals by itself.
          </span>
        </p>
      ))}
      {data.holders.length > 0 && (
        <table class="plain">
          <thead>
            <tr>
              <th>Worker</th>
              <th>Heard</th>
              <th class="right">Runs</th>
              <th>Granted</th>
            </tr>
          </thead>
          <tbody>
            {data.holders.map((one) => (
              <Holder one={one} />
            ))}
          </tbody>
        </table>
      )}
      {!data.problem && data.disagreements.length === 0 && <p class="small dim">Manager and store agree on {count(data.compared)} {data.compared === 1 ? 'run' : 'runs'}.</p>}
    </section>
  );
}

function Holder({ one }: { one: LeaseHolder }) {
  const more = one.active - one.runs.length;
  return (
    <tr>
      <td>
        <Pill status={one.is_live ? 'completed' : 'failed'}>{one.is_live ? 'alive' : 'silent'}</Pill> <b class="text">{plain(one.worker)}</b>
      </td>
      <td>
        {one.seen_at ? <Age at={one.seen_at} /> : 'never'}
        {one.skew_seconds !== 0 && <div class="small is-paused">{`its clock is ${age(Math.abs(one.skew_seconds) * 1000)} ${one.skew_seconds > 0 ? 'ahead of' : 'behind'} the store's`}</div>}
      </td>
      <td class="right">{count(one.active)}</td>
      <td>
        {one.runs.map((run) => (
          <a class="holding clip" href={href('run', { id: run })}>{plain(run)}</a>
        ))}
        {more > 0 && <span class="small dim"> and {count(more)} more</span>}
      </td>
    </tr>
  );
}
